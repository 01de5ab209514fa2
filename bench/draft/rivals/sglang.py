"""SGLang's n-gram drafter: the C++ sources of its wheel behind a thin binding."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from bench.draft.rivals.base import Absent, Draft, Rival, Setup, Tokens
from bench.draft.rivals.build import compile_module, load, unpack
from bench.draft.trace import Request
from bench.support.packages import Package

__all__ = ["SGLang"]

_PACKAGE = Package(
    "sglang",
    "sglang-0.5.23-cp311-cp311-manylinux_2_34_x86_64.whl",
    "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
)
_BINDER = Package(
    "pybind11",
    "pybind11-3.1.0-py3-none-any.whl",
    "b8488090f8acffbcb6b5d6a85571a6827a0a2981ffb75e5a0b27b87c4a6b7dd0",
)
_FILES = ("result.cpp", "trie.cpp", "suffix_automaton.cpp", "ngram.cpp")
_ONLINE_CAPACITY = 10_000_000
_REQUEST_CAPACITY = 1_000_000
"""Nodes of its pool: its default is enough for one request."""


def _library() -> ModuleType:
    if "sglang_ngram" in sys.modules:
        return sys.modules["sglang_ngram"]
    native = unpack(_PACKAGE, ["csrc/ngram_corpus/"])
    native = native / "sglang" / "kernels" / "jit" / "csrc" / "ngram_corpus"
    binder = unpack(_BINDER, ["pybind11/include/"]) / "pybind11" / "include"
    sources = [Path(__file__).with_name("sglang_binding.cpp"), *(native / file for file in _FILES)]
    return load("sglang_ngram", compile_module("sglang_ngram", sources, [native, binder]))


class SGLang(Rival):
    """A trie of everything seen, and for corpora the trie or a suffix automaton.

    Args:
        setup: The replay. Its tree counts the root, so it is given one node more.
        mode: `BFS` (by recency, its default) or `PROB` (by frequency).
        breadth: Maximum number of children of the root; its default is 8.
        depth: Longest match; its default is 18.
        insert_prompts: Whether prompts enter the trie; its worker does not do this.
        automaton_budget: Nodes that corpora get, which then go into its automaton; 0 puts them
            into the trie.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        mode: Literal["BFS", "PROB"] = "BFS",
        breadth: int = 8,
        depth: int = 18,
        insert_prompts: bool = True,
        automaton_budget: int = 0,
    ) -> None:
        self._setup = setup
        self._depth = depth
        self._insert_prompts = insert_prompts
        self._automaton_budget = automaton_budget
        capacity = _ONLINE_CAPACITY if setup.online else _REQUEST_CAPACITY
        self._drafter: Any = _library().Drafter(
            capacity, setup.nodes + 1, depth, breadth, mode, automaton_budget
        )
        self._ids = itertools.count()
        self._id = -1

    def insert(self, documents: list[list[int]]) -> None:
        if self._automaton_budget:
            self._drafter.add_corpus(f"corpus-{next(self._ids)}", documents)
            return
        if not self._setup.online:
            raise Absent("its trie cannot forget a request and keep a corpus")
        for document in documents:
            self._drafter.insert(document)

    def start(self, request: Request) -> None:
        self._id = next(self._ids)
        if not self._setup.online:
            self._drafter.reset()
        if self._insert_prompts:
            self._drafter.insert(request.prompt_ids)

    def draft(self, context: Tokens) -> Draft:
        tokens, parents = self._drafter.match(
            self._id, context[-self._depth :].tolist(), len(context)
        )
        return tokens, parents

    def accept(self, context: Tokens, count: int) -> None:
        # As its worker does: the tail again after each step, whatever `count` is.
        self._drafter.insert(context[-self._depth :].tolist())

    def finish(self) -> None:
        self._drafter.erase(self._id)

    def empty_call(self) -> None:
        self._drafter.erase(-1)
