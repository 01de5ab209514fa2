"""An EAGLE-3 head of drawn weights for a model of any size."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from bench.gpu.models.shapes import ModelShape

__all__ = ["write_random_head"]

_NAMED_TOKENS = 32_000
_TAPS = 3


def write_random_head(folder: Path, shape: ModelShape, *, dtype: torch.dtype) -> Path:
    """Writes a head of one layer as wide as the model's, for 32,000 tokens or all, and returns the folder.

    It reads the outputs of three layers, as published heads do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hidden, inner = shape.hidden, shape.inner
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    named = min(_NAMED_TOKENS, shape.vocabulary)
    last = shape.layers - 1
    taps = [min(1, last), last // 2, max(0, last - 3)]
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "draft_vocab_size": named,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "hidden_act": "silu",
        "max_position_embeddings": 32_768,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": taps, "use_aux_hidden_state": True},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    generator = torch.Generator().manual_seed(1)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        scale: float = columns**-0.5
        return (torch.randn(rows, columns, generator=generator) * scale).to(dtype)

    norm = torch.ones(hidden, dtype=dtype)
    tensors = {
        "fc.weight": matrix(hidden, _TAPS * hidden),
        "midlayer.self_attn.q_proj.weight": matrix(queries, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": matrix(keys, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": matrix(keys, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": matrix(hidden, queries),
        "midlayer.mlp.gate_proj.weight": matrix(inner, hidden),
        "midlayer.mlp.up_proj.weight": matrix(inner, hidden),
        "midlayer.mlp.down_proj.weight": matrix(hidden, inner),
        "lm_head.weight": matrix(named, hidden),
        "d2t": torch.zeros(named, dtype=torch.int64),
    }
    names = ("midlayer.hidden_norm", "midlayer.input_layernorm")
    for name in (*names, "midlayer.post_attention_layernorm", "norm"):
        tensors[f"{name}.weight"] = norm.clone()
    save_file(tensors, folder / "model.safetensors")
    return folder
