"""Which rivals are replayed with which settings: each as it ships, and at its best tuned ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.draft.rivals.arctic import Arctic
from bench.draft.rivals.base import Rival, Setup
from bench.draft.rivals.lookup import Lookup
from bench.draft.rivals.majority import Majority
from bench.draft.rivals.recycling import Recycling
from bench.draft.rivals.sglang import SGLang

__all__ = ["ALONE", "FRONTIER", "WITH_CORPUS", "Contender", "grid"]


@dataclass(frozen=True, slots=True)
class Contender:
    """A rival with its settings.

    Attributes:
        name: As tables show it.
        make: A fresh drafter for one replay.
    """

    name: str
    make: Callable[[Setup], Rival]


def _arctic(tree: bool, factor: float, minimum: float) -> Contender:
    shape = "tree" if tree else "chain"
    return Contender(
        f"Arctic {shape}, factor {factor:g}, min {minimum:g}",
        lambda setup: Arctic(setup, tree=tree, factor=factor, min_probability=minimum),
    )


def _sglang(mode: str, breadth: int, budget: int = 0) -> Contender:
    with_corpus = f", automaton {budget}" if budget else ""
    return Contender(
        f"SGLang {mode}, breadth {breadth}{with_corpus}",
        lambda setup: SGLang(
            setup,
            mode="BFS" if mode == "BFS" else "PROB",
            breadth=breadth,
            automaton_budget=min(budget, setup.nodes),
        ),
    )


def _lookup(longest: int, latest: bool, length: int | None) -> Contender:
    place = "latest" if latest else "first"
    return Contender(
        f"prompt lookup, n<={longest}, {place}, {length or 'all'}",
        lambda setup: Lookup(setup, longest=longest, latest=latest, length=length),
    )


_ARCTIC_DEFAULT = _arctic(False, 1, 0.1)
_ARCTIC_WIDE = _arctic(True, 4, 0.1)
_MAJORITY = Contender("vLLM's suffix rule", Majority)

ALONE: tuple[Contender, ...] = (
    _lookup(2, False, 10),
    _lookup(8, True, None),
    _ARCTIC_DEFAULT,
    _ARCTIC_WIDE,
    _arctic(True, 16, 0),
    Contender("SGLang BFS, tail only", lambda setup: SGLang(setup, insert_prompts=False)),
    _sglang("BFS", 8),
    _sglang("BFS", 12),
    _sglang("PROB", 8),
    _MAJORITY,
    Contender("Token Recycling", Recycling),
)
"""Without a corpus: each as it ships, and at the best settings of the tuning split."""

WITH_CORPUS: tuple[Contender, ...] = (
    _ARCTIC_DEFAULT,
    _ARCTIC_WIDE,
    _arctic(True, 16, 0),
    _sglang("BFS", 8),
    _sglang("BFS", 8, 6),
    _sglang("BFS", 8, 8),
    _MAJORITY,
)
"""With a corpus, likewise."""

FRONTIER: tuple[Contender, ...] = (
    _arctic(True, 1, 0.1),
    _arctic(True, 2, 0.1),
    _arctic(True, 8, 0.1),
)
"""More of Arctic with a corpus, for its curve of accepted over drafted."""


def grid(*, corpus: bool) -> Iterator[Contender]:
    """The settings that the tuning split chose from."""
    for tree, factor, minimum in itertools.product((False, True), (1, 4, 8, 16), (0.1, 0.03, 0)):
        if factor > 1 or not minimum:
            yield _arctic(tree, factor, minimum)
    for mode, breadth in itertools.product(("BFS", "PROB"), (4, 8, 12, 16)):
        if not corpus:
            yield _sglang(mode, breadth)
    if corpus:
        for mode, budget in itertools.product(("BFS", "PROB"), (0, 6, 8, 12)):
            yield _sglang(mode, 8, budget)
        return
    for longest, latest in itertools.product((2, 3, 5, 8), (False, True)):
        yield _lookup(longest, latest, None)
