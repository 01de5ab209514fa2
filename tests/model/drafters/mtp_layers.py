"""Tiny models with a random layer for multi-token prediction, by the names of three families."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.model.drafters.fused import fused_tensors
from tests.model.drafters.heads import HIDDEN
from tests.model.families import save_family

__all__ = ["FORMS", "NORMS", "layer_config", "mtp_tensors", "save_model", "write_alone"]

NORMS = frozenset({"vector", "state", "layers.0.input_layernorm", "output"})

FORMS: dict[str, dict[str, str]] = {
    "mimo": {
        "fc": "model.mtp_layers.0.input_proj",
        "vector": "model.mtp_layers.0.token_layernorm",
        "state": "model.mtp_layers.0.hidden_layernorm",
        "output": "model.mtp_layers.0.final_layernorm",
        "layers.0": "model.mtp_layers.0",
    },
    "deepseek": {
        "fc": "model.layers.3.eh_proj",
        "vector": "model.layers.3.enorm",
        "state": "model.layers.3.hnorm",
        "output": "model.layers.3.shared_head.norm",
        "layers.0": "model.layers.3",
    },
    "qwen3_next": {
        "fc": "mtp.fc",
        "vector": "mtp.pre_fc_norm_embedding",
        "state": "mtp.pre_fc_norm_hidden",
        "output": "mtp.norm",
        "layers.0": "mtp.layers.0",
    },
}
"""For each form what stands for the start of a name of `mtp_tensors`."""


def layer_config(folder: Path) -> dict[str, Any]:
    """Returns a model's configuration, with what a layer of it needs."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    rope = config.get("rope_parameters") or {}
    return config | {
        "head_dim": config.get("head_dim") or HIDDEN // config["num_attention_heads"],
        "rope_theta": rope.get("rope_theta", config.get("rope_theta", 10000.0)),
        "num_hidden_layers": 1,
        "sliding_window": None,
    }


def mtp_tensors(config: dict[str, Any], *, qkv_bias: bool = False) -> dict[str, torch.Tensor]:
    """Returns a layer for a model, by the names of `fused`: `vector`, `state` and `output` are its norms."""
    tensors = fused_tensors(config, qkv_bias=qkv_bias)
    del tensors["fc.bias"]
    generator = torch.Generator().manual_seed(9)
    for name in sorted(NORMS):
        tensors[f"{name}.weight"] = 1 + 0.3 * torch.randn(HIDDEN, generator=generator)
    return tensors


def stored(tensors: dict[str, torch.Tensor], form: str) -> dict[str, torch.Tensor]:
    """Returns a layer as a family stores it."""
    renamed = {}
    for name, tensor in tensors.items():
        start = next(start for start in FORMS[form] if name.startswith(f"{start}."))
        is_offset = form == "qwen3_next" and tensor.dim() == 1 and name.endswith(".weight")
        renamed[FORMS[form][start] + name.removeprefix(start)] = tensor - 1 if is_offset else tensor
    return renamed


def save_model(
    folder: Path, form: str, more: dict[str, torch.Tensor] | None = None, **changes: Any
) -> dict[str, torch.Tensor]:
    """Writes a tiny model with a layer, and returns the layer as `mtp_tensors` does.

    Args:
        folder: Where to.
        form: One of `FORMS`; MiMo's model has biases.
        more: Tensors besides, by the names of the file.
        changes: Fields of the configuration, of which None removes one.
    """
    is_mimo = form == "mimo"
    save_family("qwen2" if is_mimo else "llama", folder, tie_word_embeddings=False)
    tensors = mtp_tensors(layer_config(folder), qkv_bias=is_mimo)
    path = folder / "model.safetensors"
    # Copied, since the file that is mapped is written.
    own = {name: tensor.clone() for name, tensor in load_file(path).items()}
    save_file(own | stored(tensors, form) | (more or {}), path)
    config = json.loads((folder / "config.json").read_text()) | {"num_nextn_predict_layers": 1}
    if is_mimo:
        config |= {"architectures": ["MiMoForCausalLM"], "model_type": "mimo"}
    config = {name: value for name, value in (config | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


def write_alone(
    folder: Path, target: Path, more: dict[str, torch.Tensor] | None = None, **changes: Any
) -> dict[str, torch.Tensor]:
    """Writes a layer in MiMo's form without its model, for a model that has none; see `save_model`."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = mtp_tensors(layer_config(target))
    save_file(stored(tensors, "mimo") | (more or {}), folder / "model.safetensors")
    config = json.loads((target / "config.json").read_text()) | {
        "architectures": ["MiMoMTPModel"],
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return tensors
