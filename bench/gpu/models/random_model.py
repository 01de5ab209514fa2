"""Model folders of any size whose weights are drawn when they are loaded."""

from __future__ import annotations

import json
from pathlib import Path

from bench.gpu.models.shapes import ModelShape
from bench.gpu.models.tiny_model import write_tokenizer
from spectrie.model.files.checkpoint import RANDOM_WEIGHTS

__all__ = ["write_random_model"]


def write_random_model(folder: Path, shape: ModelShape, *, max_context: int = 32_768) -> Path:
    """Writes configuration and a tokenizer over bytes, and returns the folder.

    Tokens above those of the tokenizer have no text: give prompts as ids.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    family = "qwen2" if shape.qkv_bias else "llama"
    config = {
        "architectures": [f"{family.title()}ForCausalLM"],
        "model_type": family,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": max_context,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "hidden_act": "silu",
        "tie_word_embeddings": shape.tied,
        "bos_token_id": shape.vocabulary - 1,
        "eos_token_id": shape.vocabulary - 1,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / RANDOM_WEIGHTS).write_text("{}", encoding="utf-8")
    return folder
