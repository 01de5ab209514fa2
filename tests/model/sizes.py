"""Sizes of a small model as `config.json` has them."""

from __future__ import annotations

from typing import Any

__all__ = ["SIZES"]

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 256,
}
