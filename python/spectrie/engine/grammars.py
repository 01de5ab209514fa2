"""Answers held to a grammar: the options that ask for one, and the compiler of a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["KINDS", "Constraint", "Grammars"]

KINDS = ("json_schema", "json_object", "regex", "grammar", "choice")
"""Options of which a request may set one."""


class Constraint(NamedTuple):
    """What an answer is held to: an option of `KINDS` and its text or texts, none of `json_object`."""

    kind: str
    text: str | list[str] | None


class Grammars:
    """Compiles the constraints of one model; the compiler is made when the first one comes.

    Safe to share between threads. Not for the step loop's thread: compiling takes milliseconds, the
    first time half a second, at worst ten seconds.

    Args:
        open_tokenizer: Gives the model's tokenizer.
        eos_token_ids: Tokens that end an answer.
    """

    def __init__(
        self, open_tokenizer: Callable[[], _core.Tokenizer], eos_token_ids: Sequence[int]
    ) -> None:
        self._open_tokenizer = open_tokenizer
        self._eos_token_ids = list(eos_token_ids)
        self._lock = threading.Lock()
        self._compiler: _core.GrammarCompiler | None = None

    def compile(self, constraint: Constraint) -> _core.Grammar:
        """Compiles a constraint, or finds it among the last ones.

        Raises:
            EngineError: It is over a limit, cannot be compiled, or no text meets it.
        """
        from spectrie import _core

        with self._lock:
            if self._compiler is None:
                tokenizer = self._open_tokenizer()
                self._compiler = _core.GrammarCompiler(tokenizer, self._eos_token_ids)
        return self._compiler.compile(constraint.kind, constraint.text)
