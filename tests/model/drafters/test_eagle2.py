"""EAGLE-2 heads: answers as plain torch has them, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from spectrie.errors import ModelError
from spectrie.model.drafters import read_drafter
from tests.model.drafters.fused import EAGLE2, fused_tensors, joined_answers
from tests.model.drafters.heads import CONFIG, HIDDEN, write_head
from tests.model.drafters.test_eagle3 import GUESSES, TOKENS, answered, distance, load
from tests.model.drafters.test_load import target_of

pytestmark = pytest.mark.usefixtures("own_cache")


def expected(
    target: Path, head: dict[str, torch.Tensor], dtype: str = "float32", **form: Any
) -> torch.Tensor:
    return joined_answers(target, head, dtype, TOKENS, GUESSES, **form)


def write(folder: Path, head: dict[str, torch.Tensor] | None = None, **changes: Any) -> Path:
    dtype = changes.pop("dtype", torch.float32)
    return write_head(folder, head or fused_tensors(), dtype, **(EAGLE2 | changes))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.01)])
def test_answers_are_those_of_plain_torch(
    tiny: Path, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    head = fused_tensors()
    runner = load(tiny, write(tmp_path, head, dtype=getattr(torch, dtype)), dtype)
    assert runner.drafter is not None
    assert runner.drafter.kind == "eagle2"
    assert distance(answered(runner), expected(tiny, head, dtype)) < tolerance
    assert distance(answered(runner, 7), expected(tiny, head, dtype)) < tolerance


FORMS: dict[str, dict[str, Any]] = {
    "two_layers": {"num_hidden_layers": 2},
    "no_bias": {"bias": False},
    "sliding_window": {"sliding_window": 7},
    "rope": {"rope_theta": 300.0},
    "attention_bias": {"qkv_bias": True},
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_each_form_is_computed_as_its_configuration_says(
    tiny: Path, tmp_path: Path, form: str
) -> None:
    layers = 2 if form == "two_layers" else 1
    head = fused_tensors(layers=layers, qkv_bias=form == "attention_bias")
    if form == "no_bias":
        del head["fc.bias"]
    found = answered(load(tiny, write(tmp_path, head, **FORMS[form])))
    assert distance(found, expected(tiny, head, config=FORMS[form])) < 1e-5
    assert distance(found, expected(tiny, fused_tensors())) > 1e-3


WRONG: dict[str, dict[str, Any]] = {
    "the state before the target's last norm": {"raw_feature": True},
    "the state before the vector": {"state_first": True},
    "a norm before attention": {"norms": frozenset({"layers.0.input_layernorm"})},
    "a norm before the head": {"norms": frozenset({"output"})},
    "a normed state carried on": {"norms": frozenset({"output"}), "carries_normed": True},
}


@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_a_wrong_form_gives_other_answers(tiny: Path, tmp_path: Path, wrong: str) -> None:
    head = fused_tensors()
    found = answered(load(tiny, write(tmp_path, head)))
    norms = {
        f"{name}.weight": torch.linspace(0.5, 1.5, HIDDEN)
        for name in ("layers.0.input_layernorm", "output")
    }
    assert distance(found, expected(tiny, head | norms, **WRONG[wrong])) > 1e-2


def test_its_own_vectors_are_read(tiny: Path, tmp_path: Path) -> None:
    head = fused_tensors()
    embedding = torch.randn(200, HIDDEN, generator=torch.Generator().manual_seed(1))
    plain = answered(load(tiny, write(tmp_path / "plain", head)))
    other = load(tiny, write(tmp_path / "own", head | {"embed_tokens.weight": embedding}))
    assert distance(answered(other), plain) > 1e-2


def test_vllm_keeps_the_layer_apart(tiny: Path, tmp_path: Path) -> None:
    head = fused_tensors()
    plain = answered(load(tiny, write(tmp_path / "plain", head)))
    own = {"architectures", "draft_vocab_size", "eagle_config"}
    layer = {name: value for name, value in CONFIG.items() if name not in own}
    dropped: dict[str, Any] = dict.fromkeys(layer)
    other = write(
        tmp_path / "other",
        {f"model.{name}": tensor for name, tensor in head.items()},
        **dropped,
        architectures=["EagleModel"],
        method="eagle",
        truncated_vocab_size=200,
        model=layer,
    )
    assert torch.equal(answered(load(tiny, other)), plain)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tokens": ({"hot_vocab_size": 64}, r"not supported.*hot_vocab_size \(64\)"),
    "cut": ({"truncated_vocab_size": 64}, "truncated_vocab_size is 64, expected 200"),
    "draft_vocabulary": ({"draft_vocab_size": 64}, "draft_vocab_size is 64, but there is no d2t"),
    "target": ({"vocab_size": 201}, "vocab_size is 201, expected 200, the target's"),
    "width": ({"hidden_size": 64}, "hidden_size is 64, expected 48, the target's"),
    "method": ({"method": "medusa"}, "method is 'medusa', expected 'eagle'"),
    "model": ({"model": 3}, "model is 3, expected an object"),
    "layers": ({"num_hidden_layers": 2}, r"layers\.1\.input_layernorm\.weight is missing"),
    "bias": ({"attention_bias": True}, r"q_proj\.bias is missing"),
    "activation": ({"hidden_act": "gelu"}, "hidden_act is 'gelu', supported: silu"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_configuration_that_is_not_understood_is_refused(
    tiny: Path, tmp_path: Path, case: str
) -> None:
    changes, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        read_drafter(write(tmp_path, **changes), target_of(tiny))


def test_a_norm_that_the_published_form_lacks_is_refused(tiny: Path, tmp_path: Path) -> None:
    for name in ("layers.0.input_layernorm.weight", "norm.weight"):
        folder = write(tmp_path / name, fused_tensors() | {name: torch.ones(HIDDEN)})
        with pytest.raises(ModelError, match=f"unexpected tensors: {name}"):
            read_drafter(folder, target_of(tiny))
