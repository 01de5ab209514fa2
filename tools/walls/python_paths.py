"""Which file of a Python package imports which other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.walls.graph import Arrows

__all__ = ["imported_names", "python_arrows"]


class _Import(NamedTuple):
    """One import: the module, the member or nothing for `import module`, and its name in the file."""

    module: str
    member: str
    name: str


def imported_names(path: Path, root: Path, package: str) -> set[str]:
    """Full dotted names a file imports anywhere in it, relative imports resolved."""
    found = list(_imports(path, root, package))
    return {one.module for one in found} | {
        f"{one.module}.{one.member}" for one in found if one.member
    }


def python_arrows(root: Path, package: str) -> Arrows:
    """For each file of the package in `root`, the files that define what it imports.

    What an `__init__` hands on counts for the file that defines it. Handing on is no use as long as
    the name is in `__all__`, comes from below the folder and is not used in the `__init__` itself.
    """
    files = sorted(root.rglob("*.py"))
    modules = {_module(file, root, package): file for file in files}
    exports = {
        _module(file, root, package): {
            one.member: one.module for one in _imports(file, root, package) if one.member
        }
        for file in files
        if file.name == "__init__.py"
    }
    arrows: Arrows = {}
    for file in files:
        face = _face(file) if file.name == "__init__.py" else set()
        found = set()
        for one in _imports(file, root, package):
            target = _resolve(modules, exports, one.module, one.member)
            if target is None or target == file:
                continue
            if one.name not in face or not target.is_relative_to(file.parent):
                found.add(target)
        arrows[file] = found
    return arrows


def _imports(path: Path, root: Path, package: str) -> Iterator[_Import]:
    """Every import of a file, wherever it stands."""
    here = [package, *path.relative_to(root).with_suffix("").parts]
    for node in _statements(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            yield from (_Import(alias.name, "", alias.asname or "") for alias in node.names)
        else:
            base = here[: -node.level] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            for alias in node.names:
                yield _Import(module, alias.name, alias.asname or alias.name)


@cache
def _statements(text: str) -> list[ast.Import | ast.ImportFrom]:
    nodes = ast.walk(ast.parse(text))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def _face(file: Path) -> set[str]:
    """The names in `__all__` of a file that nothing in the file uses."""
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    named: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            named |= set(ast.literal_eval(node.value))
    return named - {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _module(file: Path, root: Path, package: str) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join((package, *parts))


def _resolve(
    modules: dict[str, Path], exports: dict[str, dict[str, str]], name: str, member: str
) -> Path | None:
    for _ in range(8):
        if member and f"{name}.{member}" in modules:
            return modules[f"{name}.{member}"]
        onward = exports.get(name, {}).get(member)
        if onward is None or onward not in modules:
            break
        name = onward
    return modules.get(name)
