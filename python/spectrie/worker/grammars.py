"""Answers held to a grammar: the options that ask for one, and the compiler of a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.worker.checker import Checker

__all__ = ["Constraint", "Grammars", "read_constraint"]

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


def read_constraint(checker: Checker, options: Mapping[str, Any]) -> Constraint | None:
    """Reads the options that hold an answer to a grammar; None where none does.

    Refuses values of the wrong type, and more than one of them.
    """
    given = {kind: options.get(kind) for kind in KINDS}
    given = {kind: value for kind, value in given.items() if value is not None}
    if given.get("json_object") is False:
        del given["json_object"]
    if not given:
        return None
    (kind, value), *others = given.items()
    for other, _ in others:
        checker.refuse(other, f"given together with {kind}, allowed one of {', '.join(KINDS)}")
    if kind == "json_schema" and isinstance(value, Mapping):
        value = json.dumps(value, ensure_ascii=False)
    if kind == "json_object":
        if value is not True:
            checker.refuse(kind, f"given {value!r}, allowed True or False")
        return Constraint(kind, None)
    if kind == "choice":
        texts = () if isinstance(value, str) or not isinstance(value, Sequence) else value
        if not texts or not all(isinstance(text, str) for text in texts):
            checker.refuse(kind, f"given {value!r}, allowed a list of texts")
        return Constraint(kind, [str(text) for text in texts])
    if not isinstance(value, str):
        allowed = "a schema as text or mapping" if kind == "json_schema" else "text"
        checker.refuse(kind, f"given {value!r}, allowed {allowed}")
    return Constraint(kind, str(value))
