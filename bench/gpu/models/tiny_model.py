"""A tiny random Llama over bytes, which every machine can write, load and run."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["write_tiny_model", "write_tokenizer"]

_LAYERS, _HEADS, _KV_HEADS, _HEAD_DIM = 2, 4, 2, 16
_HIDDEN = _HEADS * _HEAD_DIM
_INNER = 2 * _HIDDEN
_END = "<|endoftext|>"


def write_tiny_model(folder: Path, *, max_context: int) -> Path:
    """Writes a model folder in Hugging Face form, 0.4 MB, and returns it; a token is a byte."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = write_tokenizer(folder)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HEAD_DIM,
        "vocab_size": tokens,
        "max_position_embeddings": max_context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": tokens - 1,
        "eos_token_id": tokens - 1,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    _write_weights(folder, tokens)
    return folder


def write_tokenizer(folder: Path) -> int:
    """Writes a byte-level tokenizer that merges nothing; returns how many tokens it has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), _END]
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([_END])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": _END}
    (folder / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    return len(letters)


def _write_weights(folder: Path, tokens: int) -> None:
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(1)

    def random(rows: int, columns: int, scale: float = 0.2) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * scale

    query, key = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM
    tensors = {
        "model.embed_tokens.weight": random(tokens, _HIDDEN, scale=0.5),
        "model.norm.weight": torch.ones(_HIDDEN),
    }
    for layer in range(_LAYERS):
        products = {
            "self_attn.q_proj": random(query, _HIDDEN),
            "self_attn.k_proj": random(key, _HIDDEN),
            "self_attn.v_proj": random(key, _HIDDEN),
            "self_attn.o_proj": random(_HIDDEN, query),
            "mlp.gate_proj": random(_INNER, _HIDDEN),
            "mlp.up_proj": random(_INNER, _HIDDEN),
            "mlp.down_proj": random(_HIDDEN, _INNER),
        }
        norms = ("input_layernorm", "post_attention_layernorm")
        named = products | {name: torch.ones(_HIDDEN) for name in norms}
        tensors |= {f"model.layers.{layer}.{name}.weight": one for name, one in named.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
