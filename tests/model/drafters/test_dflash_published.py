"""DFLASH heads answer as z-lab's own code does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spectrie.model import load_runner
from spectrie.model.drafters.dflash import default_layers
from spectrie.model.files.weights import Weights
from spectrie.model.runner.text_features import text_features
from tests.model.drafters.dflash import BLOCK, DFLASH, DFLASH2, MASK, TAPS, block_tensors, selected
from tests.model.drafters.heads import CONFIG, HIDDEN, VOCABULARY, write_head
from tests.model.drafters.published import published_head, published_model
from tests.model.drafters.session import Request, draft_path, feed
from tests.model.drafters.test_dflash import ANCHOR, GUESSES, TOKENS, answered, load
from tests.model.drafters.test_eagle3 import distance

pytestmark = pytest.mark.usefixtures("own_cache")


def by_the_package(
    target: Path, name: str, config: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> tuple[Any, torch.Tensor, SimpleNamespace]:
    """Returns a head of the package, its states behind the last token, and the target as it takes one."""
    weights = Weights(target)
    embedding, lm_head = (
        weights.tensor(one, (VOCABULARY, HIDDEN)).float()
        for one in ("model.embed_tokens.weight", "lm_head.weight")
    )
    runner = load_runner(target, dtype="float32", num_pages=16, threads=2)
    (found,) = text_features(runner, [TOKENS], layers=TAPS, top=0)
    head = published_head(name, config, tensors, embedding)
    scale = float(config.get("input_embedding_scale", 1.0))
    block = torch.tensor([ANCHOR] + [MASK] * (BLOCK - 1))
    with torch.no_grad():
        states = head(
            position_ids=torch.arange(len(TOKENS) + BLOCK)[None],
            noise_embedding=embedding[block][None] * scale,
            target_hidden=found.features.float()[None],
        )
    return head, states[:, 1:], SimpleNamespace(lm_head=lambda x: x @ lm_head.T)


# Scores reach 30, where a float is 2e-6 apart from the next, and processors add them in different orders.
# Of a wrong form at least 1e-2 is off (test_dflash2).
TOLERANCE = 1e-4

LAYERS: dict[str, dict[str, Any]] = {
    "all layers see the whole block": {
        "layer_types": ["full_attention"] * 2,
        "use_sliding_window": False,
    },
    "a layer has a window": {"sliding_window": 9},
    "windows are switched off": {"use_sliding_window": False, "sliding_window": 9},
    "windows have no size, switched off": {"use_sliding_window": None, "sliding_window": None},
}


@pytest.mark.parametrize("layers", sorted(LAYERS))
def test_answers_are_those_of_the_package(tiny: Path, tmp_path: Path, layers: str) -> None:
    tensors, config = block_tensors(), DFLASH | LAYERS[layers]
    head, states, target = by_the_package(tiny, "DFlashDraftModel", CONFIG | config, tensors)
    expected = head.compute_logits(states, target.lm_head)[0].log_softmax(-1)
    runner = load(tiny, write_head(tmp_path, tensors, **config))
    assert distance(answered(runner), expected) < TOLERANCE
    assert distance(answered(runner, 7), expected) < TOLERANCE


SECOND: dict[str, dict[str, Any]] = {
    "as published": {},
    "none causal": {"is_causal": False, "sliding_window": 9},
    "all causal": {"is_causal": True},
    "scaled and capped": {
        "input_embedding_scale": 3.0,
        "output_multiplier": 0.25,
        "final_logit_softcapping": 1.5,
    },
}


@pytest.mark.parametrize("form", sorted(SECOND))
def test_answers_of_a_second_head_are_those_of_the_package(
    tiny: Path, tmp_path: Path, form: str
) -> None:
    tensors, config = block_tensors(selected=VOCABULARY), DFLASH2 | SECOND[form]
    head, states, target = by_the_package(tiny, "DFlash2DraftModel", CONFIG | config, tensors)
    logits = head.compute_logits(states, target.lm_head)[0]
    runner = load(tiny, write_head(tmp_path, tensors, **config))
    expected, _ = selected(tensors, states[0], logits, torch.tensor(GUESSES))
    assert distance(answered(runner), expected) < TOLERANCE
    # The path that the package itself would draft: each place behind the token of the one before.
    with torch.no_grad():
        path, _, _ = head.propose(states, torch.tensor([ANCHOR]), target.lm_head, 0.0)
    drafted = path[0].tolist()
    request = Request(runner, range(8))
    feed(request, TOKENS, len(TOKENS))
    own = draft_path(request, [ANCHOR, *drafted[:-1]])
    assert [int(answer.ids[0, 0]) for answer in own] == drafted


def test_default_layers_are_those_of_the_package() -> None:
    module = published_model()
    for num_layers in (12, 24, 28, 30, 36, 64):
        for own in (1, 2, 5, 8):
            expected = module.build_target_layer_ids(num_layers, own)
            assert default_layers(num_layers, own) == expected
