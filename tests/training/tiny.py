"""A tiny target that has learned some English, and samples for a head of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from spectrie.training.target import Target
from spectrie.training.texts.prompts import varied_chats
from spectrie.training.texts.samples import Sample
from tests.tiny_model import Shape, write_tiny_model
from tests.training.plain import train

SHAPE = Shape(hidden=64, inner=160, layers=8)
TEXT_TOKENS = 64
_STEPS = 180
_BATCH = 24


@cache
def texts(folder: Path, seed: int, count: int) -> list[list[int]]:
    """Texts of equal length, of the prompts that the target learned to write."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    whole = "\n".join(chat.messages[-1]["content"] for chat in varied_chats(count, seed))
    ids = tokenizer.encode(whole).ids
    return [ids[at : at + TEXT_TOKENS] for at in range(0, len(ids) - TEXT_TOKENS, TEXT_TOKENS)]


def samples(folder: Path, seed: int, count: int) -> list[Sample]:
    """Of those texts; the first four tokens are context."""
    return [Sample(ids, [(4, len(ids))], "tiny") for ids in texts(folder, seed, 600)[:count]]


def trained_target(folder: Path) -> Target:
    """Writes the model and trains it for some seconds."""
    write_tiny_model(folder, shape=SHAPE)
    path = folder / "model.safetensors"
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: value.clone().requires_grad_()
        if value.dim() == 1
        else torch.empty_like(value).normal_(std=0.06, generator=generator).requires_grad_()
        for name, value in load_file(path).items()
    }
    target = Target(folder)
    tokens = torch.tensor(texts(folder, 1, 4000))
    batches = [
        tokens[torch.randint(len(tokens), (_BATCH,), generator=generator)] for _ in range(_STEPS)
    ]
    loss = train(target, tensors, batches)
    save_file({name: value.detach() for name, value in tensors.items()}, path, {"format": "pt"})
    print(f"tiny target: loss {loss:.2f}")
    return Target(folder)
