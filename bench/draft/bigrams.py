"""What the model says after one token alone, frozen for the tokens of the traces."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.draft import trace
from bench.draft.trace import TOP_K, Request

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["FILE", "read_bigrams", "record_bigrams", "tokens_of"]

FILE = "bigrams.jsonl.xz"
_BATCH = 512


def tokens_of(requests: Iterable[Request]) -> set[int]:
    """Every token that a draft for these requests can end in."""
    found: set[int] = set()
    for request in requests:
        found.update(request.prompt_ids, request.output_ids, request.prediction_ids or ())
        for ids, _ in request.topk or ():
            found.update(ids)
    return found


def record_bigrams(folder: Path, tokens: Iterable[int], path: Path) -> None:
    """Asks the model in `folder` for its top-8 after each token alone, in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    from spectrie.model.config.model_config import ModelConfig
    from spectrie.model.runner.bigram_prefix import bigram_prefix_of

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prefix = bigram_prefix_of(folder, ModelConfig.from_folder(folder))
    ordered = sorted(tokens)
    lines = []
    with torch.inference_mode():
        for first in range(0, len(ordered), _BATCH):
            batch = ordered[first : first + _BATCH]
            rows = torch.tensor([[*prefix, token] for token in batch])
            logits = model(rows, use_cache=False, logits_to_keep=1).logits[:, -1]
            top = torch.softmax(logits, dim=-1).topk(TOP_K, dim=-1)
            entries = zip(batch, top.indices.tolist(), top.values.tolist(), strict=True)
            for token, ids, values in entries:
                entry = [token, ids, [round(value, 4) for value in values]]
                lines.append(json.dumps(entry, separators=(",", ":")) + "\n")
    trace.write_lines(path, lines)


def read_bigrams(path: Path = trace.TRACES / FILE) -> _core.Bigrams:
    """The table of a file that `record_bigrams` wrote; other tokens are unknown."""
    import numpy as np

    from spectrie import _core

    entries = list(_entries(path))
    shape = (max(token for token, _, _ in entries) + 1, TOP_K)
    ids, probabilities = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for token, row, values in entries:
        ids[token], probabilities[token] = row, values
    return _core.Bigrams(ids, probabilities)


def _entries(path: Path) -> Iterator[tuple[int, list[int], list[float]]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            token, ids, values = json.loads(line)
            yield token, ids, values
