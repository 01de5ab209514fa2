"""Prompts about the functions of Python files."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator

from spectrie.training.texts.prompts import Chat

__all__ = ["function_chats"]

_STUB_FORMS = (
    "Finish this function.\n\n```python\n{code}\n```",
    "Implement the body:\n```python\n{code}\n```",
    "{code}\n\nWrite the missing part of this Python function.",
    "Please write this function.\n\n```python\n{code}\n```",
)
_WHOLE_FORMS = (
    "What does this code do?\n\n```python\n{code}\n```",
    "Review this function.\n\n```python\n{code}\n```",
    "Write a test for this:\n```python\n{code}\n```",
    "```python\n{code}\n```\n\nExplain it line by line.",
    "Add type hints and a docstring.\n\n```python\n{code}\n```",
)
_LINES = range(3, 31)


def function_chats(sources: Iterable[str], seed: int = 0) -> Iterator[Chat]:
    """Yields a chat about each function of 3 to 30 lines; files that do not parse are left out.

    Half of the functions with a docstring are asked to be written from it.

    Args:
        sources: Texts of Python files.
        seed: Chooses what is asked.
    """
    chance = random.Random(seed)
    for source in sources:
        for code, stub in _functions(source):
            if stub is not None and chance.random() < 0.5:
                text = chance.choice(_STUB_FORMS).format(code=stub)
            else:
                text = chance.choice(_WHOLE_FORMS).format(code=code)
            yield Chat(({"role": "user", "content": text},))


def _functions(source: str) -> Iterator[tuple[str, str | None]]:
    """Yields each top-level function, and its part down to the docstring if there is one."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.splitlines()
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.end_lineno is None:
            continue
        first = node.lineno - 1
        if node.end_lineno - first not in _LINES:
            continue
        documented = ast.get_docstring(node) is not None
        stub = "\n".join(lines[first : node.body[0].end_lineno]) if documented else None
        yield "\n".join(lines[first : node.end_lineno]), stub
