"""Layers for multi-token prediction: answers as plain torch has them, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spectrie.errors import ConfigError, ModelError
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Target, read_drafter
from spectrie.model.files.measurements import Measurements
from spectrie.model.files.tensors import as_tensor
from spectrie.model.plan import StepPlan
from spectrie.model.runner.drafter_loading import chosen_drafters
from tests.model.drafters.fused import joined_answers
from tests.model.drafters.heads import HIDDEN
from tests.model.drafters.mtp_layers import FORMS, NORMS, layer_config, save_model, write_alone
from tests.model.drafters.test_eagle3 import GUESSES, TOKENS, answered, distance, load
from tests.model.drafters.test_load import target_of

pytestmark = pytest.mark.usefixtures("own_cache")

Tensors = dict[str, torch.Tensor]


def expected(
    target: Path, tensors: Tensors, form: str, dtype: str = "float32", **wrong: Any
) -> torch.Tensor:
    right: dict[str, Any] = {"norms": NORMS, "state_first": form == "mimo", "carries_normed": True}
    config = layer_config(target)
    return joined_answers(target, tensors, dtype, TOKENS, GUESSES, config=config, **(right | wrong))


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.01)])
def test_answers_are_those_of_plain_torch(
    tmp_path: Path, form: str, dtype: str, tolerance: float
) -> None:
    tensors = save_model(tmp_path, form)
    runner = load_runner(tmp_path, dtype=dtype, num_pages=16, drafter="mtp", threads=2)
    assert runner.drafter is not None
    assert runner.drafter.kind == "mtp"
    right = expected(tmp_path, tensors, form, dtype)
    assert distance(answered(runner), right) < tolerance
    assert distance(answered(runner, 7), right) < tolerance


WRONG: dict[str, dict[str, Any]] = {
    "the state before the target's last norm": {"raw_feature": True},
    "a raw state carried on": {"carries_normed": False},
    "the vector before the state": {"state_first": False},
    "no norm of the state": {"norms": NORMS - {"state"}},
    "no norm of the vector": {"norms": NORMS - {"vector"}},
    "no norm before attention": {"norms": NORMS - {"layers.0.input_layernorm"}},
    "no vector in the first row": {"drops_first": True},
}


@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_a_wrong_form_gives_other_answers(tmp_path: Path, wrong: str) -> None:
    tensors = save_model(tmp_path, "mimo")
    found = answered(load(tmp_path, tmp_path))
    # One row of context weighs little.
    least = 1e-4 if "drops_first" in WRONG[wrong] else 1e-2
    assert distance(found, expected(tmp_path, tensors, "mimo", **WRONG[wrong])) > least


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_model_is_the_same_without_its_layer(tmp_path: Path, form: str) -> None:
    save_model(tmp_path, form)
    plan = StepPlan.single(TOKENS, kv_len=0, pages=range(3))

    def logits(**options: Any) -> Any:
        return load_runner(tmp_path, num_pages=16, threads=2, **options).forward(plan).numpy()

    assert np.array_equal(logits(), logits(drafter="mtp"))


def named(runner: Runner) -> str | None:
    return None if runner.drafter is None else runner.drafter.kind


def test_auto_takes_the_layer_if_there_is_one_that_can_run(tiny: Path, tmp_path: Path) -> None:
    own, other, deep = (tmp_path / name for name in ("own", "other", "deep"))
    save_model(own, "mimo")
    assert named(load_runner(own, num_pages=8, drafter="auto")) == "mtp"
    assert named(load_runner(own, num_pages=8, drafter=own)) == "mtp"
    assert named(load_runner(own, num_pages=8)) is None
    assert named(load_runner(tiny, num_pages=8, drafter="auto")) is None
    none = Measurements(None)
    assert chosen_drafters(["auto"], own, "cpu", 1, none)[0].folder == own
    assert chosen_drafters(["auto"], own, "cuda", 1, none)[0].folder == own
    assert chosen_drafters(["auto"], own, "cpu", 2, none)[0].folder == own
    (choice,) = chosen_drafters(["auto"], own, "cuda", 2, none)
    assert choice.folder is None
    assert choice.why_none == (
        "the model's layer for multi-token prediction runs on a CPU or on one GPU with Triton, and this "
        "model runs on 2 GPUs"
    )
    more = {"model.layers.3.mlp.gate.weight": torch.ones(4, HIDDEN)}
    save_model(deep, "deepseek", more)
    lines: list[str] = []
    assert named(load_runner(deep, num_pages=8, drafter="auto", progress=lines.append)) is None
    assert any(
        "without the drafter deep" in line and "a mixture of experts" in line for line in lines
    )
    write_alone(other, tiny)
    assert named(load_runner(tiny, num_pages=8, drafter=other)) == "mtp"


def test_a_layer_that_is_asked_for_must_be_there_and_run(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no layer for multi-token prediction"):
        load_runner(tiny, num_pages=8, drafter="mtp")
    save_model(tmp_path, "mimo")
    with pytest.raises(
        ConfigError, match="drafter is 'mtp', but drafters run on a CPU or on one GPU"
    ):
        chosen_drafters(["mtp"], tmp_path, "cuda", 2, Measurements(None))


MISSING: dict[str, tuple[str, str, str]] = {
    "deepseek": (
        "deepseek",
        "model.layers.3.self_attn.kv_a_proj_with_mqa.weight",
        r"model\.layers\.3\.\* has multi-head latent attention, which drafters here do not compute",
    ),
    "glm": ("deepseek", "model.layers.3.mlp.shared_experts.up_proj.weight", "a mixture of experts"),
    "qwen3_next": (
        "qwen3_next",
        "mtp.layers.0.self_attn.q_norm.weight",
        r"mtp\.\* has norms of queries and keys",
    ),
    "linear": ("qwen3_next", "mtp.layers.0.linear_attn.A_log", "has linear attention"),
    "two": ("mimo", "model.mtp_layers.1.input_proj.weight", "2 layers, each for another depth"),
    "two_qwen": ("qwen3_next", "mtp.layers.1.mlp.up_proj.weight", "2 layers, each for another"),
}


@pytest.mark.parametrize("case", sorted(MISSING))
def test_a_kind_of_layer_that_is_missing_is_named(tmp_path: Path, case: str) -> None:
    form, name, message = MISSING[case]
    save_model(tmp_path, form, {name: torch.ones(4, HIDDEN)})
    with pytest.raises(ModelError, match=message):
        load_runner(tmp_path, num_pages=8, drafter="mtp")
    assert named(load_runner(tmp_path, num_pages=8)) is None


def test_an_output_gate_and_a_window_are_named(tmp_path: Path) -> None:
    save_model(tmp_path, "qwen3_next")
    gate = {"mtp.layers.0.self_attn.q_proj.weight": torch.ones(2 * HIDDEN, HIDDEN)}
    save_model(tmp_path / "gate", "qwen3_next", gate)
    with pytest.raises(ModelError, match="has attention with an output gate"):
        load_runner(tmp_path / "gate", num_pages=8, drafter="mtp")
    target = target_of(tmp_path)
    window = replace(target.config, layer_windows=(None, 8, 8))
    with pytest.raises(ModelError, match="has a sliding window"):
        read_drafter(tmp_path, Target(window, target.head, target.folder))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "width": ({"intermediate_size": 96}, "intermediate_size is 96, expected 80, the target's"),
    "vocabulary": ({"vocab_size": 201}, "vocab_size is 201, expected 200, the target's"),
    "rotation": ({"rope_parameters": {"rope_theta": 5.0}}, "not rotated as the target's"),
    "field": ({"logit_bias": 3}, r"not supported.*logit_bias \(3\)"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_layer_of_another_model_is_refused(tiny: Path, tmp_path: Path, case: str) -> None:
    changes, message = REFUSED[case]
    write_alone(tmp_path, tiny, **changes)
    with pytest.raises(ModelError, match=message):
        read_drafter(tmp_path, target_of(tiny))


def test_a_tensor_of_the_layer_that_is_not_known_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path, "mimo", {"model.mtp_layers.0.gate.weight": torch.ones(3)})
    with pytest.raises(ModelError, match=r"1 unexpected tensors: model\.mtp_layers\.0\.gate"):
        load_runner(tmp_path, num_pages=8, drafter="mtp")


def test_a_tensor_among_the_models_own_layers_is_none_of_the_layers(tmp_path: Path) -> None:
    save_model(tmp_path, "deepseek", {"model.layers.1.eh_proj.weight": torch.ones(3)})
    with pytest.raises(ModelError, match=r"1 unexpected tensors: model\.layers\.1\.eh_proj"):
        load_runner(tmp_path, num_pages=8)


def test_a_head_of_its_own_names_the_tokens(tmp_path: Path) -> None:
    head = torch.randn(200, HIDDEN, generator=torch.Generator().manual_seed(2))
    plain, other, same = (tmp_path / name for name in ("plain", "other", "same"))
    save_model(plain, "deepseek")
    own = "model.layers.3.shared_head.head.weight"
    save_model(other, "deepseek", {own: head})
    save_model(same, "deepseek", {own: as_tensor(target_of(plain).head).clone()})
    answers = [answered(load(folder, folder)) for folder in (plain, other, same)]
    assert distance(answers[0], answers[1]) > 1e-2
    assert torch.equal(answers[0], answers[2])
