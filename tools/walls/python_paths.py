"""Which file of a Python package imports which other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.walls.graph import Arrows

__all__ = ["imported_names", "python_arrows"]


def imported_names(path: Path, root: Path, package: str) -> set[str]:
    """Full dotted names a file imports anywhere in it, relative imports resolved."""
    return {name for name, _ in _imports(path, root, package)} | {
        f"{name}.{member}" for name, member in _imports(path, root, package) if member
    }


def python_arrows(root: Path, package: str) -> Arrows:
    """For each file of the package in `root`, the files that define what it imports.

    What an `__init__` only hands on counts for the file that defines it, and handing on is no use.
    """
    files = sorted(root.rglob("*.py"))
    modules = {_module(file, root, package): file for file in files}
    exports = {
        _module(file, root, package): {
            member: name for name, member in _imports(file, root, package) if member
        }
        for file in files
        if file.name == "__init__.py"
    }
    arrows: Arrows = {}
    for file in files:
        handed_on = exports.get(_module(file, root, package), {})
        found = set()
        for name, member in _imports(file, root, package):
            target = _resolve(modules, exports, name, member)
            if target is not None and target != file and member not in handed_on:
                found.add(target)
        arrows[file] = found
    return arrows


def _imports(path: Path, root: Path, package: str) -> Iterator[tuple[str, str]]:
    """Module and member of each import; the member is empty for `import module`."""
    here = [package, *path.relative_to(root).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


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
