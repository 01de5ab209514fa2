"""Arrows between files: circles, and arrows that point up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["Arrows", "circles", "room_of", "upward"]

Arrows = dict[Path, set[Path]]
"""Each file with those it uses."""


def circles(arrows: Arrows) -> list[list[Path]]:
    """The groups of files that use each other, directly or by others; sorted."""
    order: list[Path] = []
    seen: set[Path] = set()
    for file in sorted(arrows):
        _walk(file, arrows, seen, order)
    back: Arrows = {file: set() for file in arrows}
    for file, targets in arrows.items():
        for target in targets:
            back.setdefault(target, set()).add(file)
    seen = set()
    found = []
    for file in reversed(order):
        group: list[Path] = []
        _walk(file, back, seen, group)
        if len(group) > 1:
            found.append(sorted(group))
    return sorted(found)


def _walk(start: Path, arrows: Arrows, seen: set[Path], order: list[Path]) -> None:
    """Appends what can be reached from `start`, each file after all that it uses."""
    stack = [(start, iter(sorted(arrows.get(start, ()))))] if start not in seen else []
    seen.add(start)
    while stack:
        file, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(sorted(arrows.get(target, ())))))
                break
        else:
            order.append(file)
            stack.pop()


def room_of(file: Path, root: Path) -> str:
    """The room of a file: its folder below `root`, or its own name where it has none."""
    parts = file.relative_to(root).parts
    return parts[0] if len(parts) > 1 else file.stem


def upward(arrows: Arrows, root: Path, order: Sequence[Sequence[str]]) -> list[str]:
    """The arrows that an order forbids, as text; rooms that the order lacks are named too.

    Args:
        arrows: Of the files below `root`.
        root: Folder whose rooms are ordered.
        order: Levels from the bottom. A room uses rooms of lower levels only, never its neighbours.
    """
    level = {room: number for number, rooms in enumerate(order) for room in rooms}
    found = []
    for file, targets in sorted(arrows.items()):
        here = room_of(file, root)
        if here not in level:
            found.append(f"{file.relative_to(root)}: the room {here} has no place in the order")
            continue
        for target in sorted(targets):
            there = room_of(target, root)
            if there != here and level.get(there, 1 << 30) >= level[here]:
                found.append(f"{file.relative_to(root)} uses {target.relative_to(root)}")
    return found
