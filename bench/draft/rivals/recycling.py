"""Token Recycling by its paper's rule, in our own words: a fixed tree over the last top-k."""

from __future__ import annotations

import heapq

from bench.draft.rivals.base import Absent, Draft, Rival, Setup, Tokens
from bench.draft.trace import TOP_K, Request

__all__ = ["Recycling"]

_RANKS = (0.47, 0.10, 0.05, 0.03, 0.02, 0.016, 0.013, 0.011)
"""How often a place of the remembered top-8 comes true, on the tuning split: the shape of the tree."""


class Recycling(Rival):
    """For each token the model's last top-8 after it; the draft is a fixed tree over that table."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._shape = _shape(setup.nodes)
        self._table: dict[int, list[int]] = {}
        self._topk: list[tuple[list[int], list[float]]] = []

    def insert(self, documents: list[list[int]]) -> None:
        raise Absent("token recycling learns from the model's own steps alone")

    def start(self, request: Request) -> None:
        if request.topk is None:
            raise Absent("the trace holds no top-k of the model")
        if not self._setup.online:
            self._table = {}
        self._topk = request.topk
        # What follows the newest token is not known before the step that this draft is for.
        for token, (ids, _) in zip(request.prompt_ids[:-1], request.topk, strict=False):
            self._table[token] = ids

    def draft(self, context: Tokens) -> Draft:
        tokens: list[int] = []
        parents: list[int] = []
        placed: list[int | None] = []
        for parent, rank in self._shape:
            at = -1 if parent < 0 else placed[parent]
            above = None if at is None else int(context[-1]) if at < 0 else tokens[at]
            choices = [] if above is None else self._table.get(above, [])
            if at is None or rank >= len(choices):
                placed.append(None)
                continue
            placed.append(len(tokens))
            parents.append(at)
            tokens.append(choices[rank])
        return tokens, parents

    def accept(self, context: Tokens, count: int) -> None:
        for at in range(len(context) - count - 1, len(context) - 1):
            self._table[int(context[at])] = self._topk[at][0]

    def finish(self) -> None:
        pass  # The next `start` decides what stays.


def _shape(nodes: int) -> list[tuple[int, int]]:
    """Parent and rank of each node: those likeliest to be reached, parents first."""
    shape: list[tuple[int, int]] = []
    heap = [(-value, -1, rank) for rank, value in enumerate(_RANKS[:TOP_K])]
    heapq.heapify(heap)
    while heap and len(shape) < nodes:
        value, parent, rank = heapq.heappop(heap)
        shape.append((parent, rank))
        for deeper, chance in enumerate(_RANKS[:TOP_K]):
            heapq.heappush(heap, (value * chance, len(shape) - 1, deeper))
    return shape
