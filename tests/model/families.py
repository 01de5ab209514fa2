"""Tiny random models made by transformers, one per family and variant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["FAMILIES", "save_family"]

_SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 200,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
_LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama_tied_bias": (
        "Llama",
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    "llama3_rope": ("Llama", {"rope_parameters": _LLAMA3, "head_dim": 16}),
    "linear_rope": ("Llama", {"rope_parameters": _LINEAR}),
    "mistral_window": ("Mistral", {"sliding_window": 24, "head_dim": 12}),
    "mistral_yarn": (
        "Mistral",
        {"sliding_window": None, "rope_parameters": _YARN | {"mscale": 0.7, "mscale_all_dim": 1.0}},
    ),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2_window": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3", {"head_dim": 20, "attention_bias": False}),
    "qwen3_yarn_tied": (
        "Qwen3",
        {
            "head_dim": 24,
            "attention_bias": True,
            "tie_word_embeddings": True,
            "rope_parameters": _YARN | {"beta_fast": 8.0, "truncate": False},
        },
    ),
    "qwen3_moe": (
        "Qwen3Moe",
        {
            "head_dim": 20,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "norm_topk_prob": True,
            "mlp_only_layers": [1],
        },
    ),
    "qwen3_moe_window": (
        "Qwen3Moe",
        {
            "num_experts": 20,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 40,
            "norm_topk_prob": False,
            "decoder_sparse_step": 2,
            "use_sliding_window": True,
            "sliding_window": 20,
        },
    ),
    "mixtral": ("Mixtral", {"num_local_experts": 5, "num_experts_per_tok": 3}),
    "mixtral_window": (
        "Mixtral",
        {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 24},
    ),
    "smollm3": (
        "SmolLM3",
        {"no_rope_layer_interval": 2, "use_sliding_window": False, "tie_word_embeddings": False},
    ),
    "smollm3_window": (
        "SmolLM3",
        {"no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 20},
    ),
}


def save_family(name: str, folder: Path, **changes: Any) -> None:
    """Writes the model `name` of `FAMILIES`, with other values of its configuration in `changes`."""
    import torch
    import transformers

    kind, options = FAMILIES[name]
    config = getattr(transformers, f"{kind}Config")(**(_SIZES | options | changes))
    config._attn_implementation = "eager"
    torch.manual_seed(len(name))
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        # Fresh norms are all ones and biases zero, which would hide a weight that is not used.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
