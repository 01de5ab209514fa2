"""Loading heads: every published spelling, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from spectrie.errors import ConfigError, ModelError
from spectrie.model import load_runner
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.drafters import Drafter, Target, read_drafter
from spectrie.model.files.measurements import Measurements
from spectrie.model.files.tensors import as_tensor
from spectrie.model.files.weights import Weights
from spectrie.model.runner.drafter_loading import chosen_drafters
from tests.model.drafters.heads import CONFIG, HIDDEN, TAPS, VOCABULARY, head_tensors, write_head
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.drafters.test_eagle3 import answered, load
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")

Tensors = dict[str, torch.Tensor]


def target_of(folder: Path) -> Target:
    head = Weights(folder).take("lm_head.weight", (VOCABULARY, HIDDEN))
    return Target(ModelConfig.from_folder(folder), head, folder)


def _renamed(tensors: Tensors, rename: Callable[[str], str]) -> Tensors:
    return {rename(name): tensor for name, tensor in tensors.items()}


SPELLINGS: dict[str, Callable[[str], str]] = {
    "layers": lambda name: name.replace("midlayer.", "layers.0."),
    "model": lambda name: f"model.{name}" if "norm" in name or "fc" in name else name,
    "vllm": lambda name: name.replace("d2t", "draft_id_to_target_id"),
}


@pytest.mark.parametrize("spelling", sorted(SPELLINGS))
def test_every_spelling_is_the_same_head(tiny: Path, tmp_path: Path, spelling: str) -> None:
    head = head_tensors()
    plain = answered(load(tiny, write_head(tmp_path / "plain", head)))
    other = write_head(tmp_path / "other", _renamed(head, SPELLINGS[spelling]))
    assert torch.equal(answered(load(tiny, other)), plain)


def test_speculators_keep_the_layer_apart_and_count_states(tiny: Path, tmp_path: Path) -> None:
    head = head_tensors()
    plain = answered(load(tiny, write_head(tmp_path / "plain", head)))
    layer = {
        name: value
        for name, value in CONFIG.items()
        if name not in ("architectures", "draft_vocab_size", "eagle_config")
    }
    dropped: dict[str, Any] = dict.fromkeys(layer)
    other = write_head(
        tmp_path / "other",
        _renamed(head, SPELLINGS["layers"]),
        **dropped,
        architectures=["Eagle3Speculator"],
        speculators_model_type="eagle3",
        transformer_layer_config=layer,
        eagle_config=None,
        # One more than the layers, and the last state, which the head does not read.
        eagle_aux_hidden_state_layer_ids=[*(tap + 1 for tap in TAPS), 3],
    )
    assert torch.equal(answered(load(tiny, other)), plain)


def test_default_layers_are_the_published_ones(tiny: Path, tmp_path: Path) -> None:
    config = ModelConfig.from_folder(tiny)
    for num_layers, expected in ((30, [1, 14, 26]), (32, [1, 15, 28])):
        values = {field: getattr(config, field) for field in ModelConfig.__slots__}
        deep = ModelConfig(**(values | {"num_layers": num_layers}))
        target = Target(deep, target_of(tiny).head, tiny)
        drafter = read_drafter(write_head(tmp_path, eagle_config=None), target)
        assert drafter.weights.tapped_layers == expected


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"architectures": ["LlamaForCausalLM"]}, "supported: .*Eagle3DraftModel"),
    "field": ({"logit_bias": 3}, r"not supported.*logit_bias \(3\)"),
    "eagle_field": (
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": TAPS, "steps": 4}},
        r"eagle_config: fields that are not supported.*steps",
    ),
    "layers": (
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1]}},
        "expected 3 layers below 3",
    ),
    "no_default": ({"eagle_config": None}, "a target of 3 layers and an fc of 3 parts have no"),
    "target": ({"target_hidden_size": 64}, "target_hidden_size is 64, expected 48, the target's"),
    "vocabulary": ({"vocab_size": 201}, "vocab_size is 201, expected 200, the target's"),
    "drafted": ({"draft_vocab_size": 61}, "draft_vocab_size is 61, but d2t has 60 entries"),
    "activation": ({"hidden_act": "gelu"}, "hidden_act is 'gelu', supported: silu"),
    "missing_norms": ({"fc_norm": True}, r"fc_norm\.0\.weight is missing"),
    "missing_layer": ({"num_hidden_layers": 2}, r"layers\.1\.input_layernorm\.weight is missing"),
    "no_fc": (
        {"eagle_config": {"use_aux_hidden_state": False}},
        "use_aux_hidden_state is false, but there is an fc",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_configuration_that_is_not_understood_is_refused(
    tiny: Path, tmp_path: Path, case: str
) -> None:
    changes, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        read_drafter(write_head(tmp_path, **changes), target_of(tiny))


def _with(name: str, tensor: torch.Tensor | None) -> Tensors:
    tensors = head_tensors() | ({} if tensor is None else {name: tensor})
    if tensor is None:
        del tensors[name]
    return tensors


def test_tensors_that_do_not_fit_are_refused(tiny: Path, tmp_path: Path) -> None:
    ids = head_tensors()["d2t"] + torch.arange(60)
    wrong: list[tuple[Tensors, str]] = [
        (_with("gate.weight", torch.ones(48)), r"1 unexpected tensors: gate\.weight"),
        (_with("fc.weight", torch.ones(48, 100)), r"shape \(48, 100\), expected \(48, k \* 48\)"),
        (_with("norm.weight", None), r"tensor norm\.weight is missing"),
        (_with("layers.0.hidden_norm.weight", torch.ones(48)), "are names of the same tensor"),
        # Ids instead of offsets.
        (_with("d2t", ids), r"expected different ids, 0 to 199 \(draft id \+ d2t"),
        (_with("t2d", torch.ones(200, dtype=torch.bool)), "t2d names other tokens than d2t"),
        (_with("d2t", None), "a head without d2t has no t2d"),
    ]
    for number, (tensors, message) in enumerate(wrong):
        folder = write_head(tmp_path / str(number), tensors)
        with pytest.raises(ModelError, match=message):
            read_drafter(folder, target_of(tiny))


def test_a_drafter_is_refused_where_it_cannot_run(tiny: Path, tmp_path: Path) -> None:
    head = write_head(tmp_path)
    with pytest.raises(ConfigError, match=r"drafters run on a CPU or on one GPU.* on 2 GPUs"):
        chosen_drafters([str(head)], tiny, "cuda", 2, Measurements(None))
    with pytest.raises(ModelError, match="cannot read the drafter"):
        load_runner(tiny, num_pages=8, drafter=tmp_path / "nothing")


def test_a_loaded_drafter_says_what_it_is_and_costs(tiny: Path, tmp_path: Path) -> None:
    runner = load(tiny, write_head(tmp_path / "my-head"))
    info = runner.drafter
    assert info is not None
    assert (info.name, info.kind, info.max_rows) == ("my-head", "eagle3", 512)
    assert len(info.hash) == 16
    assert info.num_bytes > 4 * sum(t.numel() for t in head_tensors().values() if t.dim() > 1)
    costs = info.costs
    assert costs.rows == [1, 2, 4, 8, 16, 32, 64]
    for times in (costs.first_ms, costs.later_ms):
        assert len(times) == 7
        assert times == sorted(times)
        assert times[0] > 0
    assert costs.upkeep_ms >= 0
    assert load_runner(tiny, num_pages=8).drafter is None
    with pytest.raises(ValueError, match="this runner has no drafter"):
        load_runner(tiny, num_pages=8).draft(None)  # type: ignore[arg-type]


def _vocabulary(tiny: Path, form: str) -> tuple[Tensors, dict[str, Any]]:
    """A head whose rows are the target's in some form."""
    tensors = head_tensors()
    for name in ("lm_head.weight", "d2t", "t2d"):
        del tensors[name]
    rows = as_tensor(target_of(tiny).head).float()
    if form == "cut":
        tensors["d2t"] = head_tensors()["d2t"]
        return tensors, {}
    if form == "low_rank":
        # Of full rank, so that what it finds can be known.
        u, s, v = torch.linalg.svd(rows, full_matrices=False)
        tensors["efficient_lm_head_down_proj.weight"] = (s[:, None] * v).contiguous()
        tensors["efficient_lm_head.weight"] = u.contiguous()
    if form == "basis":
        tensors["low_rank.down.weight"] = torch.eye(HIDDEN)
        tensors["low_rank.basis.weight"] = torch.eye(HIDDEN)
    if form == "copy":
        tensors["lm_head.weight"] = rows
    return tensors, {"draft_vocab_size": None}


@pytest.mark.parametrize("form", ["cut", "low_rank", "basis", "copy"])
def test_each_form_of_the_vocabulary_gives_the_targets_own_answers(
    tiny: Path, tmp_path: Path, form: str
) -> None:
    tensors, changes = _vocabulary(tiny, "whole")
    whole = answered(load(tiny, write_head(tmp_path / "whole", tensors, **changes)))
    tensors, changes = _vocabulary(tiny, form)
    found = answered(load(tiny, write_head(tmp_path / form, tensors, **changes)), 7)
    torch.testing.assert_close(whole.logsumexp(-1), torch.zeros(4), atol=1e-4, rtol=0)
    if form == "cut":
        # Tokens outside the cut are weighed by the target's rows, against the cut's sum.
        ids = head_tensors()["d2t"] + torch.arange(60)
        whole = whole - whole[:, ids].logsumexp(-1, keepdim=True)
    torch.testing.assert_close(found, whole, atol=1e-3, rtol=1e-3)


def test_a_low_rank_head_gives_the_same_bytes_alone_and_in_company(
    tiny: Path, tmp_path: Path
) -> None:
    tensors, changes = _vocabulary(tiny, "low_rank")
    runner = load(tiny, write_head(tmp_path, tensors, **changes))
    ids = tokens(39, VOCABULARY, seed=3)
    one, other = Request(runner, range(4)), Request(runner, range(4, 8), seat=1)
    feed(one, ids, 39)
    alone = draft_path(one, [5, 6], [1, 2])
    feed(other, ids, 10)
    assert same(draft_path(other, [5, 6], [1, 2]), alone)


def test_reading_names_no_memory_that_is_gone(tiny: Path, tmp_path: Path) -> None:
    drafter: Drafter = read_drafter(write_head(tmp_path), target_of(tiny))
    named = [part[0] for layer in drafter.weights.layers for part in layer.qkv.parts]
    assert {array.ctypes.data for array in drafter.alive} >= set(named)
