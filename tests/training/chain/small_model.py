"""Small models that have learned to write Python, trained here from nothing on the standard library's source."""

from __future__ import annotations

import json
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from spectrie.training.target import Target
from tests.training.plain import train

__all__ = ["DRAFT_MODEL", "TARGET", "SmallShape", "source", "write_model"]

VOCABULARY = 1024
END = 0
_TOKENS = 64
_BATCH = 8
_MODULES = ("argparse.py", "configparser.py", "optparse.py")
_UNSEEN_SHARE = 0.1
_NORM_SPREAD = 0.7


@dataclass(frozen=True, slots=True)
class SmallShape:
    """Sizes of a model with heads of 32, and how long it learns.

    Attributes:
        hidden: Width of a row.
        inner: Width inside the feed-forward part.
        layers: How many.
        heads: Query heads.
        steps: Batches of training.
    """

    hidden: int
    inner: int
    layers: int
    heads: int
    steps: int


TARGET = SmallShape(hidden=128, inner=256, layers=6, heads=4, steps=500)
"""A million weights."""
DRAFT_MODEL = SmallShape(hidden=64, inner=128, layers=2, heads=2, steps=200)


@cache
def source(*, is_unseen: bool) -> tuple[str, ...]:
    """Modules of the standard library: what is learned from, or their last tenth, which stays unseen."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = []
    for name in _MODULES:
        text = (folder / name).read_text(encoding="utf-8")
        end = int(len(text) * (1 - _UNSEEN_SHARE))
        found.append(text[end:] if is_unseen else text[:end])
    return tuple(found)


def write_model(folder: Path, shape: SmallShape, *, is_trained: bool = True) -> Path:
    """Writes a model with its tokenizer in Hugging Face form and returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(_tokenizer())
    (folder / "config.json").write_text(json.dumps(_config(shape)))
    path = folder / "model.safetensors"
    save_file(_tensors(shape), path, {"format": "pt"})
    if is_trained:
        save_file(_learned(Target(folder), load_file(path), shape), path, {"format": "pt"})
    return folder


@cache
def _tokenizer() -> str:
    """Bytes and the commonest pairs of the source files."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(source(is_unseen=False), trainer)
    whole: str = tokenizer.to_str()
    return whole


def _config(shape: SmallShape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads // 2,
        "head_dim": 32,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": END,
        "eos_token_id": END,
        "torch_dtype": "float32",
    }


def _tensors(shape: SmallShape) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden, inner, queries = shape.hidden, shape.inner, shape.heads * 32

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator) * 0.05

    def norm_weight() -> torch.Tensor:
        # In long training they grow apart; from equal ones, a short one leaves a state the same before a norm
        # and behind it, but for its length.
        return (torch.randn(hidden, generator=generator) * _NORM_SPREAD).exp()

    tensors = {"model.embed_tokens.weight": random(VOCABULARY, hidden)}
    tensors["model.norm.weight"] = norm_weight()
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        tensors |= {
            f"{prefix}input_layernorm.weight": norm_weight(),
            f"{prefix}post_attention_layernorm.weight": norm_weight(),
            f"{prefix}self_attn.q_proj.weight": random(queries, hidden),
            f"{prefix}self_attn.k_proj.weight": random(queries // 2, hidden),
            f"{prefix}self_attn.v_proj.weight": random(queries // 2, hidden),
            f"{prefix}self_attn.o_proj.weight": random(hidden, queries),
            f"{prefix}mlp.gate_proj.weight": random(inner, hidden),
            f"{prefix}mlp.up_proj.weight": random(inner, hidden),
            f"{prefix}mlp.down_proj.weight": random(hidden, inner),
        }
    return tensors


def _learned(
    target: Target, tensors: dict[str, torch.Tensor], shape: SmallShape
) -> dict[str, torch.Tensor]:
    """The weights after training on the source files."""
    tokenizer = Tokenizer.from_str(_tokenizer())
    texts = tokenizer.encode_batch(list(source(is_unseen=False)))
    ids = torch.tensor([token for text in texts for token in text.ids])
    tensors = {name: value.clone().requires_grad_() for name, value in tensors.items()}
    generator = torch.Generator().manual_seed(1)
    starts = (
        torch.randint(len(ids) - _TOKENS, (_BATCH, 1), generator=generator)
        for _ in range(shape.steps)
    )
    loss = train(target, tensors, [ids[start + torch.arange(_TOKENS)] for start in starts])
    print(f"{shape}: loss {loss:.2f}")
    return {name: value.detach() for name, value in tensors.items()}
