"""Checkpoints that are whole, sharded, or wrong."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from spectrie.errors import ModelError
from spectrie.model import load_runner
from spectrie.model.files.weights import Weights
from spectrie.model.plan import StepPlan

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "model"))


def rewrite(folder: Path, **changes: torch.Tensor | None) -> None:
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in changes.items():
        name = name.replace("__", ".")
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def logits(folder: Path) -> torch.Tensor:
    runner = load_runner(folder, dtype="float32", threads=1, num_pages=4)
    return runner.forward(StepPlan.single([1, 2, 3], kv_len=0, pages=[0]))


def test_shards_give_the_same_model(copy: Path, tiny: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, copy / file, metadata={"format": "pt"})
    weight_map = {name: file for file, part in shards.items() for name in part}
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (copy / "model.safetensors").unlink()
    assert torch.equal(logits(copy), logits(tiny))

    lost = names[1]
    rest = {name: tensors[name] for name in names[1::2] if name != lost}
    save_file(rest, copy / "b.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=rf"tensor {re.escape(lost)} is missing"):
        logits(copy)
    (copy / "b.safetensors").write_bytes(b"cut")
    with pytest.raises(ModelError, match=r"cannot read .*b\.safetensors"):
        Weights(copy)
    (copy / "b.safetensors").unlink()
    with pytest.raises(ModelError, match=r"shards named by the index are missing: b\.safetensors"):
        Weights(copy)


@pytest.mark.parametrize("index", ["{", "{}", '{"weight_map": {"a": 5}}', '{"weight_map": []}'])
def test_an_index_that_cannot_be_used_is_named(copy: Path, index: str) -> None:
    (copy / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelError, match=r"cannot read .*model\.safetensors\.index\.json"):
        Weights(copy)


@pytest.mark.parametrize("beside", ["qweight", "weight_scale_inv", "weight_packed"])
def test_quantised_weights_are_refused_even_where_the_configuration_is_silent(
    copy: Path, beside: str
) -> None:
    kept = {} if beside == "weight_scale_inv" else {"model__layers__0__mlp__up_proj__weight": None}
    rewrite(copy, **kept, **{f"model.layers.0.mlp.up_proj.{beside}": torch.ones(1)})
    message = rf"up_proj\.weight is quantised \(.*\.{beside} is present\)"
    with pytest.raises(ModelError, match=message):
        logits(copy)


def test_bfloat16_and_float16_checkpoints_load(copy: Path, tiny: Path) -> None:
    want = logits(tiny)
    tensors = load_file(tiny / "model.safetensors")
    for dtype in (torch.bfloat16, torch.float16):
        cast = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        save_file(cast, copy / "model.safetensors", metadata={"format": "pt"})
        torch.testing.assert_close(logits(copy), want, rtol=0.1, atol=1.0)


def test_missing_tensors_are_named(copy: Path) -> None:
    rewrite(copy, model__layers__1__mlp__up_proj__weight=None)
    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        logits(copy)


def test_unexpected_tensors_are_named(copy: Path) -> None:
    rewrite(copy, model__layers__0__self_attn__q_proj__bias=torch.zeros(48))
    with pytest.raises(ModelError, match=r"1 unexpected tensors: .*q_proj\.bias"):
        logits(copy)


def test_wrong_shapes_are_named_with_what_was_expected(copy: Path) -> None:
    rewrite(copy, model__norm__weight=torch.zeros(5))
    with pytest.raises(ModelError, match=r"model\.norm\.weight has shape \(5,\), expected \(48,\)"):
        logits(copy)


def test_quantised_tensors_are_refused(copy: Path) -> None:
    rewrite(copy, model__norm__weight=torch.zeros(48, dtype=torch.int8))
    with pytest.raises(ModelError, match=r"is I8, supported: float32, bfloat16, float16"):
        logits(copy)


def test_a_folder_without_weights_is_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        Weights(copy)
    (copy / "model.safetensors").write_bytes(b"not it")
    with pytest.raises(ModelError, match=r"cannot read .*model\.safetensors"):
        Weights(copy)
