"""The table of rooms in ARCHITECTURE matches what the boundary test allows."""

from __future__ import annotations

import re

import pytest

from tests.docs.markdown import ROOT, tables
from tests.test_boundaries import CRATES, ROOMS

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROWS = {
    room.strip("`"): may_use
    for table in tables(PAGE)
    if table[0] == ["room", "what it holds", "may use"]
    for room, _, may_use in table[1:]
}
EVERYTHING = {"rust/python", "python/spectrie/cli"}
"""Rooms on top, whose row says in words that they may use all."""
CRATE_FOLDERS = {"py": "python"}
FOLDERS = sorted(room for room, may_use in ROOMS.items() if room in may_use and room != "_proto")
"""Rooms of several files; `_proto` is generated, and described with proto/."""


def listed(may_use: str) -> set[str]:
    """The rooms of a cell."""
    return {name for name in re.split(r"[`,\s]+", may_use) if name and name != "nothing"}


def folder(crate: str) -> str:
    """The folder of a crate below rust/."""
    name = crate.removeprefix("spectrie-")
    return CRATE_FOLDERS.get(name, name)


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_each_crate_is_a_row_with_its_arrows(crate: str) -> None:
    room = f"rust/{folder(crate)}"
    assert room in ROWS
    if room not in EVERYTHING:
        assert listed(ROWS[room]) == {folder(other) for other in CRATES[crate]}


@pytest.mark.parametrize("room", FOLDERS)
def test_each_python_folder_is_a_row_with_its_arrows(room: str) -> None:
    row = f"python/spectrie/{room}"
    assert row in ROWS
    if row not in EVERYTHING:
        assert listed(ROWS[row]) == ROOMS[room] - {room}
