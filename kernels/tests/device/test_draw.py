"""Tokens drawn on a device, whose arithmetic no interpreter shows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from kernels.tests.sampling.draws import OPTIONS, draw_rows, logits
from kernels.tests.sampling.test_distribution import (
    CASES,
    DRAWS,
    MOST,
    SCORES,
    Case,
    chi_square,
    rows_of,
)
from spectrie_kernels import DrawRows, draw, draw_workspace, reference

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_device(rows: DrawRows) -> DrawRows:
    tensors = {
        field.name: getattr(rows, field.name).cuda()
        for field in dataclasses.fields(rows)
        if field.name != "cuts"
    }
    return dataclasses.replace(rows, **tensors)


def agree(rng: np.random.Generator, count: int, vocabulary: int, chosen: list[str]) -> None:
    values = logits(rng, count, vocabulary)
    rows = draw_rows(rng, count, vocabulary, chosen)
    out = torch.empty(count, dtype=torch.int32)
    drawn = draw(values.cuda(), on_device(rows)).tolist()
    assert drawn == reference.draw(values, rows, out).tolist()


@pytest.mark.parametrize("vocabulary", [49_152, 151_936])
@pytest.mark.parametrize("count", [1, 64])
def test_tokens_are_those_of_the_plain_form(count: int, vocabulary: int) -> None:
    agree(np.random.default_rng([count, vocabulary]), count, vocabulary, list(OPTIONS))


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_alone(option: str) -> None:
    agree(np.random.default_rng(len(option)), 512, 2_003, [option])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tokens_have_the_promised_probabilities(case: Case) -> None:
    values = torch.from_numpy(SCORES.astype(np.float32)).repeat(DRAWS, 1)
    drawn = draw(values.cuda(), on_device(rows_of(case))).cpu().numpy()
    assert chi_square(drawn, case) < MOST


def test_given_room_it_can_be_captured() -> None:
    rng = np.random.default_rng(3)
    values = logits(rng, 16, 49_152).cuda()
    rows = on_device(draw_rows(rng, 16, 49_152))
    out = torch.empty(16, dtype=torch.int32, device="cuda")
    workspace = torch.empty(draw_workspace(16, 49_152), dtype=torch.int64, device="cuda")
    expected = draw(values, rows, workspace=workspace)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        draw(values, rows, out, workspace=workspace)
    graph.replay()
    assert torch.equal(out, expected)
