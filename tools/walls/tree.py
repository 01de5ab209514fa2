"""What of a checkout breaks the walls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.walls.graph import Arrows, circles, room_of, upward
from tools.walls.orders import GENERATED, LIMITS, ORDERS, ROOTS, TEST_ROOTS, order_of
from tools.walls.python_paths import python_arrows
from tools.walls.rust_paths import rust_arrows
from tools.walls.sizes import full_folders, long_files, tracked

__all__ = [
    "across_rooms",
    "all_circles",
    "arrows_below",
    "crowded",
    "too_long",
    "unlisted_rooms",
    "without_order",
    "wrong_arrows",
]

HELD_ELSEWHERE = ("python/spectrie",)
"""Packages whose rooms have a table of arrows in the boundary tests."""
_PACKAGES = {
    "python/spectrie": "spectrie",
    "kernels/spectrie_kernels": "spectrie_kernels",
    "bench": "bench",
}


def arrows_below(root: Path) -> dict[str, Arrows]:
    """The arrows of each crate and package of a checkout, by its folder."""
    crates = {
        source.relative_to(root).as_posix(): rust_arrows(source)
        for source in sorted(root.glob("rust/*/src"))
    }
    return crates | {
        name: python_arrows(root / name, package) for name, package in _PACKAGES.items()
    }


def wrong_arrows(root: Path, arrows: dict[str, Arrows]) -> Iterator[str]:
    """Arrows that point up, or to a neighbour, in any of the declared orders."""
    for name in ORDERS:
        yield from (
            f"{name}: {one}"
            for one in upward(_inside(root / name, arrows), root / name, order_of(name))
        )


def without_order(root: Path, arrows: dict[str, Arrows]) -> Iterator[str]:
    """Crates and packages with rooms, and rooms with several rooms inside, that no order is declared for."""
    for name, one in arrows.items():
        base = root / name
        rooms: dict[Path, set[Path]] = {}
        for file in one:
            for folder in file.parents:
                if folder != base and folder.is_relative_to(base):
                    rooms.setdefault(folder.parent, set()).add(folder)
        for folder, inside in sorted(rooms.items()):
            place = folder.relative_to(root).as_posix()
            if (
                place not in ORDERS
                and place not in HELD_ELSEWHERE
                and (folder == base or len(inside) > 1)
            ):
                yield f"{place}: no order is declared for its rooms"


def unlisted_rooms(root: Path, arrows: dict[str, Arrows]) -> Iterator[str]:
    """Rooms of an order that are no more."""
    for name in ORDERS:
        there = {room_of(file, root / name) for file in _inside(root / name, arrows)}
        for room in sorted({room for level in order_of(name) for room in level} - there):
            yield f"{name}: there is no room {room}"


def all_circles(root: Path, arrows: dict[str, Arrows]) -> list[tuple[str, ...]]:
    """Every circle of files, by their paths below the checkout."""
    return [
        tuple(file.relative_to(root).as_posix() for file in circle)
        for one in arrows.values()
        for circle in circles(one)
    ]


def across_rooms(circle: tuple[str, ...]) -> bool:
    """Whether the files of a circle lie in more than one folder."""
    return len({Path(file).parent for file in circle}) > 1


def too_long(root: Path) -> list[str]:
    """Source files of more than 400 lines, tests of more than 500."""
    sources = (_tracked(root, ROOTS), LIMITS["source lines"])
    tests = (_tracked(root, TEST_ROOTS), LIMITS["test lines"])
    return [
        line
        for files, limit in (sources, tests)
        for line in long_files(root, files, limit, GENERATED)
    ]


def crowded(root: Path) -> list[str]:
    """Folders of more than 16 entries."""
    return [
        line
        for pattern in ROOTS
        for part in sorted(root.glob(pattern))
        for line in full_folders(
            tracked(root, part.relative_to(root).as_posix()),
            part.relative_to(root),
            LIMITS["entries"],
            GENERATED,
        )
    ]


def _tracked(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    parts = [part for pattern in patterns for part in sorted(root.glob(pattern))]
    return [file for part in parts for file in tracked(root, part.relative_to(root).as_posix())]


def _inside(folder: Path, arrows: dict[str, Arrows]) -> Arrows:
    """The arrows among the files of a folder."""
    return {
        file: {target for target in targets if target.is_relative_to(folder)}
        for one in arrows.values()
        for file, targets in one.items()
        if file.is_relative_to(folder)
    }
