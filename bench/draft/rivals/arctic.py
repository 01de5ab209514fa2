"""Snowflake ArcticInference's SuffixDecoding, from its sdist, unchanged."""

from __future__ import annotations

import importlib
import itertools
import sys
import types
from typing import Any

import numpy as np

from bench.draft.rivals.base import Absent, Draft, Rival, Setup, Tokens
from bench.draft.rivals.build import compile_module, load, unpack
from bench.draft.trace import Request
from bench.support.packages import Package

__all__ = ["Arctic"]

_PACKAGE = Package(
    "arctic-inference",
    "arctic_inference-0.3.0.tar.gz",
    "7f22e3e1b1071c6061c0d6951be17c0fb50b08d06d6e543144c8f52faba60a36",
)
_BINDER = Package(
    "nanobind",
    "nanobind-2.9.2-py3-none-any.whl",
    "c37957ffd5eac7eda349cff3622ecd32e5ee1244ecc912c99b5bc8188bafd16e",
)
_NAME = "arctic_inference.suffix_decoding"


def _library() -> types.ModuleType:
    """Its `suffix_decoding` package alone: the rest of it needs vLLM."""
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    root = next(unpack(_PACKAGE, ["suffix_decoding/"]).iterdir())
    binder = unpack(_BINDER, ["nanobind/include/", "nanobind/src/", "nanobind/ext/"]) / "nanobind"
    native = root / "csrc" / "suffix_decoding"
    built = compile_module(
        "_C",
        [native / "bindings.cc", native / "suffix_tree.cc", binder / "src" / "nb_combined.cpp"],
        [native, binder / "include", binder / "ext" / "robin_map" / "include"],
        ["NB_COMPACT_ASSERTIONS"],
    )
    parent = types.ModuleType("arctic_inference")
    parent.__path__ = [str(root / "arctic_inference")]
    sys.modules["arctic_inference"] = parent
    sys.modules.setdefault(_NAME, types.ModuleType(_NAME))
    load(f"{_NAME}._C", built)
    del sys.modules[_NAME]
    try:
        return importlib.import_module(_NAME)
    except ImportError as error:
        raise Absent(f"{_PACKAGE.file} does not load: {error}") from error


class Arctic(Rival):
    """One local suffix tree per request and one global tree of responses.

    Args:
        setup: The replay.
        tree: Whether it drafts trees; its default is chains.
        factor: Draft tokens per matched token; its default is 1.
        min_probability: Minimum path probability; its default is 0.1.
        depth: Depth of its trees; its default is 64.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        tree: bool = False,
        factor: float = 1.0,
        min_probability: float = 0.1,
        depth: int = 64,
    ) -> None:
        self._setup = setup
        self._options = {
            "max_spec_tokens": setup.nodes,
            "max_spec_factor": factor,
            "min_token_prob": min_probability,
            "use_tree_spec": tree,
        }
        self._cache: Any = _library().SuffixDecodingCache(max_tree_depth=depth)
        self._ids = itertools.count()
        self._id = -1

    def insert(self, documents: list[list[int]]) -> None:
        for document in documents:
            name = next(self._ids)
            self._cache.start_request(name, np.empty(0, np.int32))
            self._cache.add_active_response(name, np.asarray(document, np.int32))
            self._cache.stop_request(name)

    def start(self, request: Request) -> None:
        self._id = next(self._ids)
        self._cache.start_request(self._id, np.asarray(request.prompt_ids, np.int32))

    def draft(self, context: Tokens) -> Draft:
        found = self._cache.speculate(self._id, context, **self._options)
        return found.token_ids, found.parents

    def accept(self, context: Tokens, count: int) -> None:
        self._cache.add_active_response(self._id, context[-count:])

    def finish(self) -> None:
        self._cache.stop_request(self._id)
        if not self._setup.online:
            self._cache.evict_cached_response(self._id)

    def empty_call(self) -> None:
        self._cache._global_tree.num_seqs()
