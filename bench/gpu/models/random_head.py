"""Heads of drawn weights for a model of any size, in their published forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from bench.gpu.models.shapes import ModelShape

__all__ = ["write_random_block", "write_random_head"]

_NAMED_TOKENS = 32_000
_TAPS = 3
_BLOCK, _BLOCK_LAYERS, _BLOCK_TAPS = 16, 5, 5
"""As a DFLASH head for a model of 8 billion weights has them."""

_Matrix = Callable[[int, int], torch.Tensor]


def write_random_head(folder: Path, shape: ModelShape, *, dtype: torch.dtype) -> Path:
    """Writes an EAGLE-3 head of one layer as wide as the model's, for 32,000 tokens or all, and returns the folder.

    It reads the outputs of three layers, as published heads do.
    """
    named = min(_NAMED_TOKENS, shape.vocabulary)
    last = shape.layers - 1
    taps = [min(1, last), last // 2, max(0, last - 3)]
    config = _config(shape) | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": named,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": taps, "use_aux_hidden_state": True},
    }
    matrix, hidden = _matrices(dtype), shape.hidden
    tensors = {
        "fc.weight": matrix(hidden, _TAPS * hidden),
        **_layer("midlayer.", shape, 2 * hidden, matrix),
        "midlayer.hidden_norm.weight": torch.ones(hidden, dtype=dtype),
        "norm.weight": torch.ones(hidden, dtype=dtype),
        "lm_head.weight": matrix(named, hidden),
        "d2t": torch.zeros(named, dtype=torch.int64),
    }
    return _write(folder, config, tensors)


def write_random_block(folder: Path, shape: ModelShape, *, dtype: torch.dtype) -> Path:
    """Writes a DFLASH head of five layers as wide as the model's, with blocks of 16, and returns the folder.

    It reads the outputs of five layers, or of all where there are fewer.
    """
    num_taps = min(_BLOCK_TAPS, shape.layers)
    # From the second layer to the last but two, where there are as many.
    first, last = min(1, shape.layers - num_taps), max(num_taps, shape.layers - 2) - 1
    taps = [first + (last - first) * index // max(1, num_taps - 1) for index in range(num_taps)]
    config = _config(shape) | {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": _BLOCK_LAYERS,
        "num_target_layers": shape.layers,
        "layer_types": ["full_attention"] * _BLOCK_LAYERS,
        "block_size": _BLOCK,
        "dflash_config": {"mask_token_id": shape.vocabulary - 1, "target_layer_ids": taps},
    }
    matrix, hidden = _matrices(dtype), shape.hidden
    tensors = {
        "fc.weight": matrix(hidden, num_taps * hidden),
        "hidden_norm.weight": torch.ones(hidden, dtype=dtype),
        "norm.weight": torch.ones(hidden, dtype=dtype),
    }
    for index in range(_BLOCK_LAYERS):
        prefix = f"layers.{index}."
        tensors |= _layer(prefix, shape, hidden, matrix)
        for name in ("q_norm", "k_norm"):
            ones = torch.ones(shape.head_dim, dtype=dtype)
            tensors[f"{prefix}self_attn.{name}.weight"] = ones
    return _write(folder, config, tensors)


def _config(shape: ModelShape) -> dict[str, Any]:
    return {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "hidden_act": "silu",
        "max_position_embeddings": 32_768,
    }


def _matrices(dtype: torch.dtype) -> _Matrix:
    generator = torch.Generator().manual_seed(1)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        scale: float = columns**-0.5
        return (torch.randn(rows, columns, generator=generator) * scale).to(dtype)

    return matrix


def _layer(prefix: str, shape: ModelShape, inputs: int, matrix: _Matrix) -> dict[str, torch.Tensor]:
    """A layer whose attention takes rows of `inputs` columns."""
    hidden, inner = shape.hidden, shape.inner
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    tensors = {
        "self_attn.q_proj": matrix(queries, inputs),
        "self_attn.k_proj": matrix(keys, inputs),
        "self_attn.v_proj": matrix(keys, inputs),
        "self_attn.o_proj": matrix(hidden, queries),
        "mlp.gate_proj": matrix(inner, hidden),
        "mlp.up_proj": matrix(inner, hidden),
        "mlp.down_proj": matrix(hidden, inner),
    }
    for name in ("input_layernorm", "post_attention_layernorm"):
        tensors[name] = torch.ones(hidden, dtype=tensors["mlp.up_proj"].dtype)
    return {f"{prefix}{name}.weight": tensor for name, tensor in tensors.items()}


def _write(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder
