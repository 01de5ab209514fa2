"""A tiny random Llama with a real byte-level tokenizer, for tests that need a model and not sense."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CHAT_TEMPLATE", "Shape", "write_tiny_model", "write_tiny_tokenizer"]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
EOS_ID = 2
VOCABULARY_SIZE = 352
_WORDS = (
    "def return import class for in if else while with self None True False and or not print the "
    "a of to is it that was on as are this be by at from have an they which one you had their "
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a tiny model; heads of 16.

    Attributes:
        hidden: Width of a row.
        inner: Width inside the feed-forward part.
        layers: How many.
        heads: Query heads.
        kv_heads: Key/value heads.
        window: Tokens that a row attends to; None attends to all.
    """

    hidden: int = 64
    inner: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    window: int | None = None


def write_tiny_model(
    folder: Path, *, seed: int = 1, max_context: int = 512, shape: Shape | None = None
) -> Path:
    """Writes a model folder in Hugging Face form, at most about 0.5 MB, and returns it.

    352 tokens, ChatML template; Llama, or Mistral with a window. Its answers are random and repeat, which
    suits drafting.
    """
    shape = shape or Shape()
    family = "llama" if shape.window is None else "mistral"
    write_tiny_tokenizer(folder)
    config = {
        "architectures": [f"{family.title()}ForCausalLM"],
        "model_type": family,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": 16,
        "vocab_size": VOCABULARY_SIZE,
        "max_position_embeddings": max_context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": EOS_ID,
        "torch_dtype": "float32",
    }
    if shape.window is not None:
        config["sliding_window"] = shape.window
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": EOS_ID}))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    _write_weights(folder, config, seed)
    return folder


def write_tiny_tokenizer(folder: Path) -> Path:
    """Writes the tokenizer of the tiny model alone, a byte-level BPE of 352 tokens; returns its folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_WORDS] * 3, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>",
                "bos_token": "<|im_start|>",
            }
        )
    )
    return folder


def _write_weights(folder: Path, config: dict[str, Any], seed: int) -> None:
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)
    hidden, mlp = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    key = config["num_key_value_heads"] * config["head_dim"]

    def random(*shape: int, scale: float = 0.2) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * scale

    tensors = {
        "model.embed_tokens.weight": random(config["vocab_size"], hidden, scale=0.5),
        "model.norm.weight": torch.ones(hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        tensors |= {
            prefix + "input_layernorm.weight": torch.ones(hidden),
            prefix + "post_attention_layernorm.weight": torch.ones(hidden),
            prefix + "self_attn.q_proj.weight": random(query, hidden),
            prefix + "self_attn.k_proj.weight": random(key, hidden),
            prefix + "self_attn.v_proj.weight": random(key, hidden),
            prefix + "self_attn.o_proj.weight": random(hidden, query),
            prefix + "mlp.gate_proj.weight": random(mlp, hidden),
            prefix + "mlp.up_proj.weight": random(mlp, hidden),
            prefix + "mlp.down_proj.weight": random(hidden, mlp),
        }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
