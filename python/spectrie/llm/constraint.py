"""The options of one request that hold its answer to a grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spectrie.engine.grammars import KINDS, Constraint
from spectrie.llm.option_checks import Checker

__all__ = ["read_constraint"]


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
