"""Compiles the constraints of a model's answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["Grammars"]


class Grammars:
    """Compiles the constraints of one model; creates the compiler for the first of them.

    Safe to share between threads. At most four compile at once, on threads of their own that give way
    to forwards; others wait in line.

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

    def compile(
        self, kind: str, text: str | list[str] | None, timeout_s: float | None = None
    ) -> _core.Grammar:
        """Compiles a constraint, or returns it from the cache of recent ones.

        Takes milliseconds, half a second the first time, ten seconds of computing at worst, and what
        others ahead in line take: not for the step loop's thread.

        Args:
            kind: `json_schema`, `json_object`, `regex`, `grammar` or `choice`.
            text: Its text or texts; None for `json_object`.
            timeout_s: Longest time, with waiting and the making of the compiler. None: no limit.

        Raises:
            EngineError: It exceeds a limit, cannot be compiled, or no text satisfies it.
            TimeoutError: `timeout_s` passed.
        """
        from spectrie import _core

        began_s = time.monotonic()
        with self._lock:
            if self._compiler is None:
                tokenizer = self._open_tokenizer()
                self._compiler = _core.GrammarCompiler(tokenizer, self._eos_token_ids)
        if timeout_s is not None:
            timeout_s -= time.monotonic() - began_s
        return self._compiler.compile(kind, text, timeout_s)

    def cached(self, kind: str, text: str | list[str] | None) -> _core.Grammar | None:
        """The constraint if it was compiled lately; waits for nobody.

        Raises:
            EngineError: `kind` does not go with this `text`.
        """
        return None if self._compiler is None else self._compiler.cached(kind, text)
