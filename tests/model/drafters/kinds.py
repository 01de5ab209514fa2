"""A tiny model, and a drafter of each kind for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from tests.model.drafters.dflash import DFLASH, DFLASH2, block_tensors
from tests.model.drafters.fused import EAGLE2, fused_tensors
from tests.model.drafters.heads import head_tensors, write_head
from tests.model.drafters.models import SMALLER
from tests.model.drafters.mtp_layers import write_alone
from tests.model.drafters.peagle import PEAGLE, peagle_tensors
from tests.model.families import save_family
from tests.tiny_model import EOS_ID, VOCABULARY_SIZE, write_tiny_tokenizer

__all__ = ["KINDS", "LEARNT", "write_drafter", "write_model"]

KINDS = (
    "eagle3",
    "eagle3_of_one",
    "peagle",
    "eagle2",
    "mtp",
    "dflash",
    "dflash2",
    "model",
    "itself",
)
"""`eagle3_of_one` is for the requests of one namespace alone."""

LEARNT = "client-a"
"""The namespace whose text `eagle3_of_one` learned."""


def write_model(folder: Path) -> Path:
    """Writes a random Llama of three layers with a tokenizer, and returns its folder."""
    write_tiny_tokenizer(folder)
    _save("llama", folder)
    return folder


def write_drafter(kind: str, model: Path, folder: Path) -> Path:
    """Writes a drafter of a kind for a model of `write_model`, and returns its folder."""
    if kind == "itself":
        return model
    if kind == "model":
        _save("smollm3_window", folder, **SMALLER)
        shutil.copy(model / "tokenizer.json", folder)
    elif kind == "mtp":
        write_alone(folder, model)
    elif kind == "eagle2":
        write_head(folder, fused_tensors(), vocab_size=VOCABULARY_SIZE, **EAGLE2)
    elif kind == "dflash":
        write_head(folder, block_tensors(), vocab_size=VOCABULARY_SIZE, **DFLASH)
    elif kind == "dflash2":
        tensors = block_tensors(selected=VOCABULARY_SIZE)
        write_head(folder, tensors, vocab_size=VOCABULARY_SIZE, **DFLASH2)
    elif kind == "peagle":
        tensors = peagle_tensors()
        del tensors["t2d"]
        write_head(folder, tensors, vocab_size=VOCABULARY_SIZE, **PEAGLE)
    else:
        write_head(folder, _eagle3_tensors(), origin=_origin(kind), vocab_size=VOCABULARY_SIZE)
    return folder


def _save(family: str, folder: Path, **changes: int) -> None:
    tokens = {"vocab_size": VOCABULARY_SIZE, "bos_token_id": 1, "eos_token_id": EOS_ID}
    save_family(family, folder, **changes, **tokens, pad_token_id=0)


def _eagle3_tensors() -> dict[str, torch.Tensor]:
    tensors = head_tensors()
    # Of a smaller vocabulary, and not needed.
    del tensors["t2d"]
    return tensors


def _origin(kind: str) -> str | None:
    if kind != "eagle3_of_one":
        return None
    return json.dumps(
        {
            "kind": "eagle3",
            "model_hash": "0123456789abcdef",
            "namespaces": [LEARNT],
            "licence": "internal",
            "held_out_top_1": [0.4],
        }
    )
