"""Compiles the constraints of a model's answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["Grammars"]


class Grammars:
    """Compiles the constraints of one model; creates the compiler for the first of them.

    Safe to share between threads, but not for the step loop's thread: compiling takes milliseconds,
    half a second the first time, ten seconds at worst.

    Args:
        open_tokenizer: Returns the model's tokenizer.
        eos_token_ids: Tokens that end an answer.
    """

    def __init__(
        self, open_tokenizer: Callable[[], _core.Tokenizer], eos_token_ids: Sequence[int]
    ) -> None:
        self._open_tokenizer = open_tokenizer
        self._eos_token_ids = list(eos_token_ids)
        self._lock = threading.Lock()
        self._compiler: _core.GrammarCompiler | None = None

    def compile(self, kind: str, text: str | list[str] | None) -> _core.Grammar:
        """Compiles a constraint, or returns it from the cache of recent ones.

        Args:
            kind: `json_schema`, `json_object`, `regex`, `grammar` or `choice`.
            text: Its text or texts; None for `json_object`.

        Raises:
            EngineError: It exceeds a limit, cannot be compiled, or no text satisfies it.
        """
        from spectrie import _core

        with self._lock:
            if self._compiler is None:
                tokenizer = self._open_tokenizer()
                self._compiler = _core.GrammarCompiler(tokenizer, self._eos_token_ids)
        return self._compiler.compile(kind, text)
