"""P-EAGLE heads: all levels in one forward as plain torch has them, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from spectrie.errors import ModelError
from spectrie.model.drafters import read_drafter
from tests.model.drafters.heads import HIDDEN, TAPS, VOCABULARY, write_head
from tests.model.drafters.peagle import PEAGLE, peagle_tensors
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.drafters.test_eagle3 import (
    GUESSES,
    TOKENS,
    answered,
    distance,
    expected,
    load,
)
from tests.model.drafters.test_load import target_of

pytestmark = pytest.mark.usefixtures("own_cache")


def by_torch(target: Path, dtype: str = "float32", **form: Any) -> torch.Tensor:
    names = {
        name.replace("layers.0.", "midlayer."): tensor for name, tensor in peagle_tensors().items()
    }
    return expected(target, names, dtype, TAPS, config=PEAGLE, **form)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.02)])
def test_answers_are_those_of_plain_torch(
    tiny: Path, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    runner = load(tiny, write_head(tmp_path, peagle_tensors(), **PEAGLE), dtype)
    assert runner.drafter is not None
    assert (runner.drafter.kind, runner.drafter.max_levels) == ("peagle", 8)
    right = by_torch(tiny, dtype)
    assert distance(answered(runner), right) < tolerance
    assert distance(answered(runner, 7), right) < tolerance


@pytest.mark.parametrize(
    "wrong",
    ["continued", "guessed", "raw_mask", "in_place", "order", "residual"],
)
def test_a_wrong_form_gives_other_answers(tiny: Path, tmp_path: Path, wrong: str) -> None:
    runner = load(tiny, write_head(tmp_path, peagle_tensors(), **PEAGLE))
    assert distance(answered(runner), by_torch(tiny, wrong=wrong)) > 1e-3


def test_what_lies_between_changes_no_answer(tiny: Path, tmp_path: Path) -> None:
    runner = load(tiny, write_head(tmp_path, peagle_tensors(), **PEAGLE))
    found = []
    for guesses in (GUESSES, [GUESSES[0], 9, 9, 9]):
        request = Request(runner, [3, 9, 4, 1])
        feed(request, TOKENS, 39)
        found.append(draft_path(request, guesses, [1, 2]))
    assert same(*found)
    with pytest.raises(ValueError, match=r"row_position\[0\] is 47, expected below 47, within the"):
        draft_path(request, [GUESSES[0], *[1] * 8])


REFUSED: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "no token": (
        {"ptd_token_id": None},
        None,
        "ptd_token_id is None, mask_token_id None; expected",
    ),
    "two tokens": (
        {"mask_token_id": 3},
        None,
        "ptd_token_id is 150, mask_token_id 3; expected one",
    ),
    "token": ({"ptd_token_id": VOCABULARY}, None, "expected one token from 0 to 199"),
    "no feature": ({}, "mask_hidden", "has no tensor mask_hidden"),
    "no feature, other name": (
        {"architectures": ["LlamaForCausalLMEagle3"]},
        "mask_hidden",
        "a head for parallel drafting has no tensor mask_hidden",
    ),
    "layers": ({"num_hidden_layers": 3}, None, r"unexpected tensors: layers\.3"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_is_not_understood_is_refused(tiny: Path, tmp_path: Path, case: str) -> None:
    changes, without, message = REFUSED[case]
    tensors = {name: tensor for name, tensor in peagle_tensors().items() if name != without}
    with pytest.raises(ModelError, match=message):
        read_drafter(write_head(tmp_path, tensors, **(PEAGLE | changes)), target_of(tiny))


def test_a_feature_of_another_width_is_refused(tiny: Path, tmp_path: Path) -> None:
    tensors = peagle_tensors() | {"mask_hidden": torch.ones(1, 1, HIDDEN)}
    with pytest.raises(
        ModelError, match=r"mask_hidden has shape \(1, 1, 48\), expected \(1, 1, 144\)"
    ):
        read_drafter(write_head(tmp_path, tensors, **PEAGLE), target_of(tiny))
