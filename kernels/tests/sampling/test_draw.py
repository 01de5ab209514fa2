"""The kernels of `draw` against the plain form, which draws what rust/sampling does."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest
import torch

from kernels.tests.sampling.draws import OPTIONS, chosen_rows, draw_rows, logits
from kernels.tests.sampling.small_kernels import coarse_order, same_noise
from spectrie_kernels import BANNED, NO_LOGIT, DrawRows, draw, draw_workspace, reference
from spectrie_kernels.device.sampling import draw as triton_form
from spectrie_kernels.device.sampling import draw_cuts


def expected(values: torch.Tensor, rows: DrawRows) -> list[int]:
    out = torch.empty(len(values), dtype=torch.int32)
    return [int(token) for token in reference.draw(values, rows, out)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("vocabulary", [1, 37, 1000, 3100])
def test_tokens_are_those_of_the_plain_form(vocabulary: int, seed: int) -> None:
    rng = np.random.default_rng([vocabulary, seed])
    values = logits(rng, 8, vocabulary)
    rows = draw_rows(rng, 8, vocabulary)
    assert draw(values, rows).tolist() == expected(values, rows)


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_alone(option: str) -> None:
    rng = np.random.default_rng(len(option))
    values = logits(rng, 8, 2001)
    rows = draw_rows(rng, 8, 2001, [option], lists=option in ("repetition", "frequency"))
    assert draw(values, rows).tolist() == expected(values, rows)


def test_a_row_alone_draws_what_it_draws_in_company() -> None:
    rng = np.random.default_rng(5)
    values = logits(rng, 8, 1500)
    rows = draw_rows(rng, 8, 1500)
    tokens = draw(values, rows).tolist()
    for row in (0, 3, 7):
        alone = draw(values[[row]], chosen_rows(rows, [row]))
        assert alone.tolist() == [tokens[row]]


def test_the_shares_of_programs_change_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    values = logits(rng, 4, 4000)
    rows = draw_rows(rng, 4, 4000)
    tokens = draw(values, rows).tolist()
    # The package's attribute of this name is the function.
    monkeypatch.setattr(sys.modules["spectrie_kernels.calls.draw"], "CHUNKS", 2)
    assert draw(values, rows).tolist() == tokens


def test_rows_without_a_token_say_why() -> None:
    rng = np.random.default_rng(7)
    values = torch.zeros(4, 100)
    values[0] = -torch.inf
    values[1, 5] = torch.inf
    values[2] = torch.nan
    rows = draw_rows(rng, 4, 100, [], lists=False)
    nothing = torch.zeros((1, 4), dtype=torch.int32)
    rows = dataclasses.replace(
        rows, allowed=nothing, allowed_row=torch.tensor([-1, -1, -1, 0], dtype=torch.int32)
    )
    assert draw(values, rows).tolist() == [NO_LOGIT, NO_LOGIT, NO_LOGIT, BANNED]


def test_drawn_tokens_follow_the_softmax() -> None:
    rng = np.random.default_rng(8)
    count = 400
    values = torch.tensor([2.0, 1.0, 0.0, -1.0]).repeat(count, 1)
    rows = draw_rows(rng, count, 4, [], lists=False)
    shares = torch.bincount(draw(values, rows), minlength=4) / count
    assert torch.allclose(shares, values[0].softmax(0), atol=0.08)


def test_given_room_it_is_used() -> None:
    rng = np.random.default_rng(9)
    values = logits(rng, 3, 700)
    rows = draw_rows(rng, 3, 700)
    out = torch.empty(3, dtype=torch.int32)
    workspace = torch.empty(draw_workspace(3, 700), dtype=torch.int64)
    assert draw(values, rows, out, workspace=workspace) is out
    assert out.tolist() == expected(values, rows)


def test_arguments_that_do_not_fit_are_named() -> None:
    rng = np.random.default_rng(10)
    values = logits(rng, 3, 50)
    rows = draw_rows(rng, 3, 50)
    with pytest.raises(ValueError, match="logits are"):
        draw(values.double(), rows)
    with pytest.raises(ValueError, match=r"top_p is torch\.float64"):
        draw(values, dataclasses.replace(rows, top_p=rows.top_p.double()))
    with pytest.raises(ValueError, match="seen_count is"):
        draw(values, dataclasses.replace(rows, seen_count=rows.seen_count[:-1]))
    with pytest.raises(ValueError, match="path_start is"):
        draw(values, dataclasses.replace(rows, path_start=rows.path_start[:-1]))
    with pytest.raises(ValueError, match="out is"):
        draw(values, rows, torch.empty(4, dtype=torch.int32))
    with pytest.raises(ValueError, match="workspace is"):
        draw(values, rows, workspace=torch.empty(10, dtype=torch.int64))
    with pytest.raises(ValueError, match="vocabulary has 0"):
        draw(values[:, :0].contiguous(), rows)


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (draw_cuts, "ascending", coarse_order),
        (triton_form, "hash_bits", same_noise),
    ],
)
def test_broken_kernels_are_found_out(
    module: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(11)
    values = logits(rng, 24, 300)
    rows = draw_rows(rng, 24, 300, ["top_k", "top_p"], lists=False)
    right = expected(values, rows)
    assert draw(values, rows).tolist() == right
    monkeypatch.setattr(module, name, broken)
    assert draw(values, rows).tolist() != right
