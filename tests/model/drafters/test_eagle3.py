"""EAGLE-3: its answers against plain torch written from the published forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spectrie.model import Runner, load_runner
from spectrie.model.files.weights import Weights
from spectrie.model.runner.text_features import text_features
from tests.model.drafters.heads import (
    CONFIG,
    HIDDEN,
    TAPS,
    VOCABULARY,
    Reference,
    head_tensors,
    write_head,
)
from tests.model.drafters.session import Request, draft_path, feed
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")

TOKENS = tokens(39, VOCABULARY, seed=3)
GUESSES = [5, 77, 130, 8]
EVERY = list(range(VOCABULARY))


def load(target: Path, head: Path, dtype: str = "float32") -> Runner:
    return load_runner(target, dtype=dtype, num_pages=16, drafter=head, threads=2)


def answered(runner: Runner, chunk: int = 39) -> torch.Tensor:
    """Log-probabilities of all tokens behind each guess."""
    request = Request(runner, [3, 9, 4, 1])
    feed(request, TOKENS, chunk)
    answers = draft_path(request, GUESSES, EVERY)
    for level, answer in enumerate(answers):
        named = answer.ids[0][answer.ids[0] >= 0]
        expected = np.exp(answer.scored[named])
        np.testing.assert_allclose(answer.probabilities[0][: len(named)], expected, rtol=1e-4)
        # More than one where tokens are scored that the head cannot name.
        if np.exp(answer.scored).sum() < 1.001:
            assert answer.scored[named].min() >= np.sort(answer.scored)[-8], level
    return torch.stack([torch.from_numpy(answer.scored) for answer in answers])


def expected(
    target: Path, head: dict[str, torch.Tensor], dtype: str, layers: list[int], **form: Any
) -> torch.Tensor:
    """The same by plain torch, from the features of our own forward."""
    runner = load_runner(target, dtype=dtype, num_pages=16, threads=2)
    (text,) = text_features(runner, [TOKENS], layers=layers, top=0)
    rounded = {name: _rounded(tensor, dtype) for name, tensor in head.items()}
    weights = Weights(target)
    embedding = weights.tensor("model.embed_tokens.weight", (VOCABULARY, HIDDEN))
    config = CONFIG | form.pop("config", {})
    reference = Reference(rounded, _rounded(embedding, dtype), config, **form)
    return reference.log_probabilities(TOKENS, text.features.float(), GUESSES)


def _rounded(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    # Norms stay in single precision.
    return tensor.to(getattr(torch, dtype)).float() if tensor.dim() > 1 else tensor.float()


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference of a probability."""
    return float((one.exp() - other.exp()).abs().max())


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.03)])
def test_answers_are_those_of_plain_torch(
    tiny: Path, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    head = head_tensors()
    runner = load(tiny, write_head(tmp_path, head, getattr(torch, dtype)), dtype)
    assert distance(answered(runner), expected(tiny, head, dtype, TAPS)) < tolerance


FORMS: dict[str, dict[str, Any]] = {
    "norm_before_residual": {"norm_before_residual": True},
    "fc_norm": {"fc_norm": True},
    "sliding_window": {"sliding_window": 7},
    "two_layers": {"num_hidden_layers": 2},
    "rope": {"rope_theta": 300.0},
}


def _tensors_of(form: str) -> dict[str, torch.Tensor]:
    head = head_tensors(2 if form == "two_layers" else 1)
    if form == "fc_norm":
        for part in range(3):
            head[f"fc_norm.{part}.weight"] = torch.linspace(0.5, 1.5 + part, HIDDEN)
    return head


@pytest.mark.parametrize("form", sorted(FORMS))
def test_each_form_of_the_head_is_computed_as_its_configuration_says(
    tiny: Path, tmp_path: Path, form: str
) -> None:
    head = _tensors_of(form)
    found = answered(load(tiny, write_head(tmp_path, head, **FORMS[form])))
    right = expected(tiny, head, "float32", TAPS, config=FORMS[form])
    assert distance(found, right) < 1e-5
    if form != "two_layers":
        assert distance(found, expected(tiny, head, "float32", TAPS)) > 1e-3


@pytest.mark.parametrize("wrong", ["order", "residual", "fc_again", "state_normed", "ids"])
def test_a_wrong_form_gives_other_answers(tiny: Path, tmp_path: Path, wrong: str) -> None:
    head = head_tensors()
    found = answered(load(tiny, write_head(tmp_path, head)))
    assert distance(found, expected(tiny, head, "float32", TAPS, wrong=wrong)) > 1e-2


def test_layers_one_off_give_other_answers(tiny: Path, tmp_path: Path) -> None:
    head = head_tensors()
    found = answered(load(tiny, write_head(tmp_path, head)))
    off = [(layer + 1) % 3 for layer in TAPS]
    assert distance(found, expected(tiny, head, "float32", off)) > 1e-2
