"""Which file of a Rust crate uses which other, by its `use` lines and its paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.walls.graph import Arrows
from tools.walls.rust_text import code_of, inline_modules

__all__ = ["rust_arrows"]

_USE = re.compile(r"(?P<public>\bpub(?:\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]+);")
_PATH = re.compile(r"(?<![\w:])\w+(?:\s*::\s*\w+)+")
_CHILD = re.compile(r"(?P<path>#\[path[^\]]*\]\s*)?\bmod\s+(?P<name>\w+)\s*;")
_MACRO = re.compile(r"\bmacro_rules!\s*(\w+)")
_Path = tuple[str, ...]


@dataclass(slots=True)
class _Module:
    """One file: its place in the crate, its code, and what it hands on under which name."""

    file: Path
    path: _Path
    code: str
    children: set[str] = field(default_factory=set)
    exports: dict[str, _Path] = field(default_factory=dict)
    globs: list[_Path] = field(default_factory=list)


def rust_arrows(src: Path) -> Arrows:
    """For each file of the crate in `src`, the files that define what it uses.

    Names that a module hands on (`pub use`) count for the file that defines them. Handing on is no
    use as long as the name comes from the module's own files and is not used beside it. Code for
    tests alone does not count.
    """
    modules = _modules(src)
    macros = {
        name: module.path for module in modules.values() for name in _MACRO.findall(module.code)
    }
    arrows: Arrows = {module.file: set() for module in modules.values()}
    for module in modules.values():
        for path in _used(modules, module):
            target = _resolve(modules, macros, path)
            if target is not None and target != module.file:
                arrows[module.file].add(target)
    return arrows


def _modules(src: Path) -> dict[_Path, _Module]:
    roots = [file for file in (src / "lib.rs", src / "main.rs") if file.exists()]
    modules: dict[_Path, _Module] = {}
    pending: list[tuple[_Path, Path]] = [((), file) for file in roots[:1]]
    while pending:
        path, file = pending.pop()
        module = _Module(file, path, code_of(file.read_text(encoding="utf-8")))
        modules[path] = module
        folder = (
            file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.with_suffix("")
        )
        for child in _CHILD.finditer(module.code):
            name = child["name"]
            places = (folder / f"{name}.rs", folder / name / "mod.rs")
            for place in places:
                if place.exists() and child["path"] is None:
                    module.children.add(name)
                    pending.append(((*path, name), place))
        for use in _USE.finditer(module.code):
            for target, name in _leaves(use["tree"]):
                full = _absolute(target, path, ())
                if full is None and target[0] in module.children:
                    full = (*path, *target)
                if full is not None and name == "*":
                    module.globs.append(full[:-1])
                elif full is not None:
                    module.exports[name] = full
    return modules


def _used(modules: dict[_Path, _Module], module: _Module) -> Iterator[_Path]:
    """Every path of the crate that a file names, as seen from the crate's root."""
    inside = inline_modules(module.code)
    wiring = module.file.name in ("lib.rs", "mod.rs") or bool(module.children)
    brought = {child: (*module.path, child) for child in module.children}
    rest = module.code
    for use in _USE.finditer(module.code):
        rest = rest[: use.start()] + " " * len(use[0]) + rest[use.end() :]
    for use in _USE.finditer(module.code):
        around = _around(inside, use.start())
        for target, name in _leaves(use["tree"]):
            full = _absolute(target, module.path, around)
            if full is None and target[0] in module.children:
                full = (*module.path, *target)
            if full in modules:
                # A module alone is no use yet; what is taken from it below is.
                brought[name] = full
            elif full is not None and not (
                use["public"] and wiring and _below(module, full) and not _named(rest, name)
            ):
                yield full
    for found in _PATH.finditer(rest):
        path = tuple(re.split(r"\s*::\s*", found[0]))
        full = _absolute(path, module.path, _around(inside, found.start()))
        if full is not None:
            yield full
        elif path[0] in brought:
            yield (*brought[path[0]], *path[1:])


def _below(module: _Module, path: _Path) -> bool:
    """Whether a path leads into one of the module's own files."""
    here = len(module.path)
    return (
        path[:here] == module.path and path[here : here + 1] != () and path[here] in module.children
    )


def _named(code: str, name: str) -> bool:
    return name != "*" and re.search(rf"\b{name}\b", code) is not None


def _around(inside: list[tuple[int, int, str]], at: int) -> _Path:
    return tuple(name for begin, end, name in inside if begin <= at < end)


def _leaves(tree: str) -> Iterator[tuple[_Path, str]]:
    """Path and name of each leaf of a `use` tree: `a::{b, c as d}` has `a::b` and `a::c` as `d`."""
    tree = " ".join(tree.split())
    head, brace, rest = tree.partition("{")
    prefix = tuple(part.strip() for part in head.split("::") if part.strip())
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = tuple(part.strip() for part in path.split("::") if part.strip())
        if parts == ("self",):
            parts = ()
        yield parts, alias.strip() or (parts[-1] if parts else "")
        return
    for part in _split(rest[: rest.rindex("}")]):
        for inner, name in _leaves(part):
            whole = (*prefix, *inner)
            yield whole, name or whole[-1]


def _split(inner: str) -> Iterator[str]:
    depth, begin = 0, 0
    for place, letter in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield inner[begin:place]
            begin = place + 1
    if inner[begin:].strip():
        yield inner[begin:]


def _absolute(path: _Path, here: _Path, modules_inside: _Path) -> _Path | None:
    """A path from the crate's root; None for other crates' and for names in scope."""
    if not path:
        return None
    if path[0] == "crate":
        return path[1:]
    if path[0] not in ("self", "super"):
        return None
    base = (*here, *modules_inside)
    for at, part in enumerate(path):
        if part == "super":
            base = base[:-1]
        elif part != "self":
            return (*base, *path[at:])
    return base


def _resolve(
    modules: dict[_Path, _Module], macros: dict[str, _Path], path: _Path, depth: int = 0
) -> Path | None:
    """The file that defines what a path names."""
    at: _Path = ()
    for place, part in enumerate(path):
        module = modules[at]
        if part in module.children:
            at = (*at, part)
            continue
        if part in module.exports and depth < 8:
            onward = (*module.exports[part], *path[place + 1 :])
            if onward[: len(path)] != path:
                return _resolve(modules, macros, onward, depth + 1)
        if part == "*":
            break
        if (macro := macros.get(part)) is not None:
            return modules[macro].file
        for glob in module.globs:
            target = modules.get(glob)
            if target is not None and re.search(rf"\b{part}\b", target.code):
                return _resolve(modules, macros, (*glob, *path[place:]), depth + 1)
        break
    return modules[at].file
