"""Features of whole texts at the speed of a full forward, for training drafters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from spectrie.model.plan import StepPlan
from spectrie.model.runner.runner import Runner

__all__ = ["TextFeatures", "text_features"]

# Rows of logits that are reduced together; more only cost memory.
_REDUCED_ROWS = 128


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """What a model gives at each of the `T` tokens of a text.

    Attributes:
        tokens: int64 [T].
        features: [T, taps * hidden] in the model's dtype: the tapped outputs of layers, side by side.
        top_ids: int32 [T, K], the likeliest tokens behind each, likeliest first.
        top_log_probabilities: float32 [T, K], of the softmax over the whole vocabulary.
    """

    tokens: torch.Tensor
    features: torch.Tensor
    top_ids: torch.Tensor
    top_log_probabilities: torch.Tensor


@dataclass(slots=True)
class _Part:
    """Rows of one text in one forward."""

    text: int
    first: int
    count: int


def text_features(
    runner: Runner,
    texts: Iterable[Sequence[int]],
    *,
    layers: Sequence[int],
    final_norm: bool = False,
    top: int = 32,
) -> Iterator[TextFeatures]:
    """Runs texts through a model on a CPU; gives their features and its answers, in order.

    Forwards are filled to `max_batch_rows` with as many texts as the cache holds, so short texts cost no
    more per token than long ones. Overwrites the whole cache: for a runner that serves nobody. A row's
    numbers are those of serving, bit by bit, whatever other texts are beside it. For example, what an
    EAGLE-3 head of SmolLM2 is trained on:

        runner = load_runner(folder, num_pages=256, max_context=2048)
        for text in text_features(runner, tokenized, layers=[1, 14, 26], top=32):
            ...  # text.features: [T, 3 * 576]; entry t is the state behind token t

    Args:
        runner: A model on a CPU, in one process.
        texts: Token ids, at least one each; read as needed.
        layers: Layers whose outputs are kept, 0 = the first.
        final_norm: Whether the output of the norm before the head is kept, behind them.
        top: Likeliest tokens of each row; 0 spares the head, a fifth of a small model.

    Yields:
        One object for each text; its tensors are its own.

    Raises:
        ValueError: The runner is on a GPU, has several ranks or a drafter, there is no such layer, or a text
            is empty, longer than `max_context` or than the cache, or leaves the vocabulary.
    """
    decoder = runner.native
    if decoder is None:
        raise ValueError("features are read on a CPU, by one process")
    if decoder.drafts:
        raise ValueError("features are read without a drafter, which taps layers of its own")
    decoder.set_taps(list(layers), final_norm=final_norm)
    try:
        reader = _Reader(runner, top)
        for ids in texts:
            yield from reader.add(ids)
        yield from reader.rest()
    finally:
        decoder.set_taps([])


class _Reader:
    """Collects chunks of texts into full forwards."""

    def __init__(self, runner: Runner, top: int) -> None:
        self._runner = runner
        self._top = top
        self._next_page = 0
        self._next_text = 0
        self._plans: list[StepPlan] = []
        self._parts: list[_Part] = []
        self._rows = 0
        self._open: dict[int, tuple[Sequence[int], list[TextFeatures]]] = {}

    def add(self, ids: Sequence[int]) -> Iterator[TextFeatures]:
        """Takes a text; yields those that became complete meanwhile."""
        runner = self._runner
        num_pages = -(-len(ids) // runner.page_size)
        if not 0 < len(ids) <= runner.max_context or num_pages > runner.num_pages:
            most = min(runner.max_context, runner.num_pages * runner.page_size)
            raise ValueError(f"a text has {len(ids)} tokens; allowed: 1 to {most}")
        if self._next_page + num_pages > runner.num_pages:
            yield from self.rest()
        pages = list(range(self._next_page, self._next_page + num_pages))
        self._next_page += num_pages
        text = self._next_text
        self._next_text += 1
        self._open[text] = (ids, [])
        done = 0
        while done < len(ids):
            if self._rows == runner.max_batch_rows:
                yield from self._run()
            count = min(len(ids) - done, runner.max_batch_rows - self._rows)
            chunk = StepPlan.single(
                ids[done : done + count],
                kv_len=done,
                pages=pages[: -(-(done + count) // runner.page_size)],
                sample_rows=None if self._top else [],
                page_size=runner.page_size,
            )
            self._plans.append(chunk)
            self._parts.append(_Part(text, done, count))
            self._rows += count
            done += count

    def rest(self) -> Iterator[TextFeatures]:
        """Computes what is left; yields its texts. The cache is free afterwards."""
        if self._plans:
            yield from self._run()
        self._next_page = 0

    def _run(self) -> Iterator[TextFeatures]:
        logits = self._runner.step(StepPlan.joined(self._plans)).logits
        decoder = self._runner.native
        if decoder is None:
            raise ValueError("features are read on a CPU, by one process")
        kept = decoder.features()
        features = torch.from_numpy(kept)
        if kept.dtype == np.uint16:
            features = features.view(torch.bfloat16)
        ids, log_probabilities = _likeliest(logits, len(features), self._top)
        first = 0
        for part in self._parts:
            rows = slice(first, first + part.count)
            first += part.count
            tokens, pieces = self._open[part.text]
            pieces.append(
                TextFeatures(
                    torch.tensor(tokens[part.first : part.first + part.count]),
                    features[rows].clone(),
                    ids[rows].clone(),
                    log_probabilities[rows].clone(),
                )
            )
            if part.first + part.count == len(tokens):
                yield _joined(self._open.pop(part.text)[1])
        self._plans, self._parts, self._rows = [], [], 0


def _likeliest(logits: torch.Tensor, rows: int, top: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.empty((rows, top), dtype=torch.int32)
    log_probabilities = torch.empty((rows, top))
    for first in range(0, rows if top else 0, _REDUCED_ROWS):
        part = logits[first : first + _REDUCED_ROWS]
        found = part.topk(top, dim=-1)
        ids[first : first + len(part)] = found.indices.int()
        totals = part.logsumexp(-1, keepdim=True)
        log_probabilities[first : first + len(part)] = found.values - totals
    return ids, log_probabilities


def _joined(pieces: list[TextFeatures]) -> TextFeatures:
    return TextFeatures(
        torch.cat([piece.tokens for piece in pieces]),
        torch.cat([piece.features for piece in pieces]),
        torch.cat([piece.top_ids for piece in pieces]),
        torch.cat([piece.top_log_probabilities for piece in pieces]),
    )
