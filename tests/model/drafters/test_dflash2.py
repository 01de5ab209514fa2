"""DFLASH 2 heads: answers as plain torch has them, by depth and the token before, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spectrie.errors import ModelError
from spectrie.llm import LLM
from spectrie.model.drafters import read_drafter
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.dflash import BLOCK, CANDIDATES, DFLASH2, block_tensors
from tests.model.drafters.heads import VOCABULARY, write_head
from tests.model.drafters.session import Request, draft_path, feed
from tests.model.drafters.test_dflash import (
    ANCHOR,
    GUESSES,
    TOKENS,
    answered,
    load,
    reference,
)
from tests.model.drafters.test_eagle3 import distance
from tests.model.drafters.test_load import target_of
from tests.tiny_model import VOCABULARY_SIZE, Shape, write_tiny_model

pytestmark = pytest.mark.usefixtures("own_cache")

OTHERS = [ANCHOR, 120, 7, 61, 33]
"""Another path from the same token."""


def head_tensors() -> dict[str, torch.Tensor]:
    return block_tensors(selected=VOCABULARY)


def expected(
    target: Path, guesses: list[int], dtype: str = "float32", *, wrong: str = "", **config: Any
) -> torch.Tensor:
    """Log-probabilities of all tokens behind each guess by plain torch."""
    found, features = reference(target, head_tensors(), dtype, config=DFLASH2 | config, wrong=wrong)
    return found.selected(features, ANCHOR, guesses)[0]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_answers_are_those_of_plain_torch(
    tiny: Path, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    runner = load(tiny, write_head(tmp_path, head_tensors(), **DFLASH2), dtype)
    assert runner.drafter is not None
    assert (runner.drafter.kind, runner.drafter.max_levels) == ("dflash2", BLOCK - 1)
    for guesses in (GUESSES, OTHERS):
        right = expected(tiny, guesses, dtype)
        if dtype == "float32":
            assert distance(answered(runner, guesses=guesses), right) < tolerance
            assert distance(answered(runner, 7, guesses), right) < tolerance
        else:
            # A token at the edge of the candidates may be one or none by a rounded logit.
            found = answered(runner, guesses=guesses).topk(4).values
            assert (found.exp() - right.topk(4).values.exp()).abs().mean() < tolerance


def test_the_token_before_decides(tiny: Path, tmp_path: Path) -> None:
    runner = load(tiny, write_head(tmp_path, head_tensors(), **DFLASH2))
    one, other = (answered(runner, guesses=guesses) for guesses in (GUESSES, OTHERS))
    assert torch.equal(one[0], other[0])
    assert all(distance(one[level], other[level]) > 0.01 for level in range(1, BLOCK - 1))
    # What lies further back does not.
    same_before = [GUESSES[0], 90, GUESSES[2], 91, GUESSES[4]]
    again = answered(runner, guesses=same_before)
    assert all(torch.equal(one[level], again[level]) for level in (0, 2, 4))


def test_the_likeliest_candidates_are_named(tiny: Path, tmp_path: Path) -> None:
    for candidates in (CANDIDATES, 3):
        own = DFLASH2["dflash_config"] | {"selector_top_k": candidates}
        runner = load(
            tiny,
            write_head(
                tmp_path / str(candidates), head_tensors(), **DFLASH2 | {"dflash_config": own}
            ),
        )
        request = Request(runner, range(8))
        feed(request, TOKENS, 43)
        found, features = reference(tiny, head_tensors(), config=DFLASH2)
        every, is_candidate = found.selected(features, ANCHOR, GUESSES)
        if candidates < CANDIDATES:
            logits = found.states(features, ANCHOR) @ found.head.T
            is_candidate = torch.zeros_like(is_candidate).scatter(
                1, logits.topk(candidates).indices, True
            )
        every = every.masked_fill(~is_candidate, float("-inf")).log_softmax(-1)
        for answer, right in zip(draft_path(request, GUESSES), every, strict=True):
            count = min(candidates, 8)
            best = right.topk(count)
            assert answer.ids[0, :count].tolist() == best.indices.tolist()
            assert np.allclose(answer.probabilities[0, :count], best.values.exp(), atol=1e-5)
            assert (answer.ids[0, count:] == -1).all()


FORMS: dict[str, dict[str, Any]] = {
    "vectors scaled": {"input_embedding_scale": 3.5},
    "all causal": {"is_causal": True},
    "none causal": {"is_causal": False},
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_further_fields_are_heeded(tiny: Path, tmp_path: Path, form: str) -> None:
    changes = FORMS[form]
    runner = load(tiny, write_head(tmp_path, head_tensors(), **DFLASH2 | changes))
    found = answered(runner)
    assert distance(found, expected(tiny, GUESSES, **changes)) < 1e-5
    assert distance(found, expected(tiny, GUESSES)) > 1e-3


@pytest.mark.parametrize("wrong", ["sides", "ahead", "static", "by_token", "unprojected"])
def test_a_wrong_form_gives_other_answers(tiny: Path, tmp_path: Path, wrong: str) -> None:
    found = answered(load(tiny, write_head(tmp_path, head_tensors(), **DFLASH2)))
    assert distance(found, expected(tiny, GUESSES, wrong=wrong)) > 1e-2


def test_it_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_levels_cheap(monkeypatch)
    model = write_tiny_model(tmp_path / "model")
    config = {"hidden_size": Shape().hidden, "vocab_size": VOCABULARY_SIZE, "num_target_layers": 2}
    config["dflash_config"] = DFLASH2["dflash_config"] | {"conv_group_size": 16}
    tensors = block_tensors(hidden=64, selected=VOCABULARY_SIZE, group=16)
    head = write_head(tmp_path / "head", tensors, **(DFLASH2 | config))
    prompts = [list(range(20, 80)), [5, 6, 7], list(range(20, 90)), [9]]
    found = []
    for drafter in ("off", str(head)):
        with LLM(model, drafter=drafter, threads=2, num_pages=64) as llm:
            for temperature in (0.0, 0.8):
                options: dict[str, Any] = {"max_tokens": 100, "temperature": temperature, "seed": 2}
                answers = llm.generate(prompt_token_ids=prompts, ignore_eos=True, **options)
                found.append([answer.token_ids for answer in answers])
            assert (llm.load().head_levels > 0) == (drafter != "off")
    assert found[:2] == found[2:]


_OWN = DFLASH2["dflash_config"]
REFUSED: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "group": (
        {"dflash_config": _OWN | {"conv_group_size": 7}},
        None,
        "conv_group_size is 7, expected a divisor of hidden_size 48",
    ),
    "taps": (
        {"dflash_config": _OWN | {"conv_kernel_size": 2}},
        None,
        r"layers\.0\.attention_conv\.base_kernel",
    ),
    "no taps": (
        {"dflash_config": {k: v for k, v in _OWN.items() if k != "conv_kernel_size"}},
        None,
        "conv_kernel_size is missing",
    ),
    "no convolution": (
        {},
        "attention_conv",
        "conv_kernel_size is given, but there is no tensor layers.0.attention_conv.base_kernel",
    ),
    "half the convolutions": ({}, "mlp_conv", "mlp_conv.base_kernel is missing"),
    "no selector": (
        {},
        "candidate_selector",
        "selector_rank is given, but there is no tensor candidate_selector.hidden_projection.weight",
    ),
    "rank": (
        {"dflash_config": _OWN | {"selector_rank": 9}},
        None,
        "candidate_selector.hidden_projection.weight",
    ),
    "window": (
        {"is_causal": False, "sliding_window": 5},
        None,
        "sliding_window is 5, expected 6 or more, a block's rows, where is_causal is false",
    ),
    "field": (
        {"dflash_config": _OWN | {"markov_rank": 4}},
        None,
        "dflash_config: fields that are not supported.*markov_rank",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_is_not_understood_is_refused(tiny: Path, tmp_path: Path, case: str) -> None:
    changes, without, message = REFUSED[case]
    tensors = {
        name: tensor
        for name, tensor in head_tensors().items()
        if without is None or without not in name
    }
    with pytest.raises(ModelError, match=message):
        read_drafter(write_head(tmp_path, tensors, **(DFLASH2 | changes)), target_of(tiny))


def test_logits_are_shaped_before_they_are_read(tiny: Path, tmp_path: Path) -> None:
    shapes = {"output_multiplier": 0.5, "final_logit_softcapping": 2.0}
    tensors = block_tensors()
    own: dict[str, Any] = {"mask_token_id": 150, "target_layer_ids": [0, 1]}
    for values in (shapes, {"final_logit_softcapping": 0.0}):
        config = DFLASH2 | {"dflash_config": own | values, "architectures": ["DFlashDraftModel"]}
        found = answered(load(tiny, write_head(tmp_path, tensors, **config)))
        plain, features = reference(tiny, tensors, config=config)
        logits = plain.states(features, ANCHOR) @ plain.head.T
        if values is shapes:
            logits = torch.tanh(logits * 0.5 / 2.0) * 2.0
        assert distance(found, logits.log_softmax(-1)) < 1e-5
