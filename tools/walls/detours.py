"""Ways around the walls: files and modules that are brought in where the readers of paths do not look."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.walls.graph import Arrows
from tools.walls.orders import LATE_IMPORTS
from tools.walls.rust_text import code_of

__all__ = ["detours"]

_ELSEWHERE = re.compile(r"#\[\s*path\b")
_IMPORTERS = ("import_module", "__import__")
_OURS = ("spectrie", "spectrie_kernels", "bench")
_MEASURES_OTHERS = "bench/"
"""Where a module that is not spelled out is a rival's."""


def detours(root: Path, arrows: dict[str, Arrows]) -> list[str]:
    """Each `#[path]` and late import of our own modules, tests and `LATE_IMPORTS` aside."""
    files = sorted(file for one in arrows.values() for file in one)
    return [line for file in files for line in _of(file, file.relative_to(root).as_posix())]


def _of(file: Path, name: str) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".rs":
        for found in _ELSEWHERE.finditer(code := code_of(text)):
            line = code.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: brings a file in by its place on disk"
    elif name not in LATE_IMPORTS:
        for line, module in _late_imports(text, name):
            if not (module or name.startswith(_MEASURES_OTHERS)) or (
                module.partition(".")[0] in _OURS
            ):
                yield f"{name}:{line}: imports one of our modules by its name"


@cache
def _late_imports(text: str, name: str) -> list[tuple[int, str]]:
    """The line of each call that imports, and what it spells out of the module."""
    return [
        (node.lineno, _spelled(node))
        for node in ast.walk(ast.parse(text, name))
        if isinstance(node, ast.Call) and _called(node) in _IMPORTERS
    ]


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _spelled(call: ast.Call) -> str:
    """What a call spells out of its first argument; a text with fields up to the first of them."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.JoinedStr) and first.values:
        first = first.values[0]
    value = first.value if isinstance(first, ast.Constant) else ""
    return value if isinstance(value, str) else ""
