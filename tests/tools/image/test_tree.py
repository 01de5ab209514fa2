"""Layers: what a tree has more than the one below it, and back."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from tools.image.tree import apply_layer, pack

NEWEST_S = 1_700_000_000


def packed(tree: Path, below: Path | None = None, newest_s: int = NEWEST_S) -> bytes:
    archive = io.BytesIO()
    pack(tree, below, archive, newest_s)
    return archive.getvalue()


def entries(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {one.name: one for one in opened}


def plant(tree: Path, **files: str) -> Path:
    """Writes files of these names, `__` for a slash."""
    for name, text in files.items():
        path = tree / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tree


def state(tree: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of all that is in a tree."""
    found = {}
    for path in sorted(tree.rglob("*")):
        if path.is_symlink():
            content = os.readlink(path)
        else:
            content = path.read_text() if path.is_file() else ""
        found[str(path.relative_to(tree))] = (path.lstat().st_mode, content)
    return found


def test_equal_trees_give_equal_bytes_whenever_and_in_whatever_order_they_were_written(
    tmp_path: Path,
) -> None:
    one = plant(tmp_path / "one", a="1", b="2", d__c="3")
    other = plant(tmp_path / "other", d__c="3", b="2", a="1")
    os.utime(one / "a", (NEWEST_S + 5, NEWEST_S + 5))
    os.utime(other / "a", (NEWEST_S + 9, NEWEST_S + 9))
    assert packed(one) == packed(other)
    assert {entry.mtime for entry in entries(packed(one)).values()} == {NEWEST_S}
    os.utime(other / "a", (NEWEST_S - 9, NEWEST_S - 9))
    assert packed(one) != packed(other)


def test_layers_over_each_other_are_the_tree_they_were_packed_from(tmp_path: Path) -> None:
    below = plant(tmp_path / "below", kept="k", gone="g", old__x="x", old__y="y", was__file="f")
    (below / "link").symlink_to("kept")
    tree = plant(tmp_path / "tree", kept="k", new__file="n", now="was a folder")
    plant(tree, old__x="another")
    (tree / "was").write_text("a folder no more")
    (tree / "link").symlink_to("/elsewhere")
    (tree / "program").write_text("#!/bin/sh\n")
    (tree / "program").chmod(0o4755)
    (tree / "empty").mkdir(mode=0o700)
    os.link(tree / "program", tree / "same")
    at = tmp_path / "unpacked"
    at.mkdir()
    apply_layer(io.BytesIO(packed(below)), at)
    assert state(at) == state(below)
    apply_layer(io.BytesIO(packed(tree, below)), at)
    assert state(at) == state(tree)
    assert (at / "same").samefile(at / "program")


def test_a_layer_has_what_changed_alone(tmp_path: Path) -> None:
    below = plant(tmp_path / "below", a="1", b="2", c="3", d__e="4")
    tree = plant(tmp_path / "tree", a="1", b="9", c="3", d__f="5")
    (tree / "c").chmod(0o600)
    assert sorted(entries(packed(tree, below))) == ["b", "c", "d/.wh.e", "d/f"]
    assert pack(tree, tree, io.BytesIO(), NEWEST_S) == 0


def test_what_a_container_is_given_at_its_start_is_in_no_layer(tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", proc__1="p", tmp__x="t", run__y="r", usr__tmp__z="z")
    assert sorted(entries(packed(tree))) == ["proc", "run", "tmp", "usr", "usr/tmp", "usr/tmp/z"]


def test_below_a_folder_that_became_a_link_nothing_is_said_to_be_gone(tmp_path: Path) -> None:
    below = plant(tmp_path / "below", a__b__x="1")
    outside = plant(tmp_path / "outside", b__x="not of the image")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").symlink_to(outside)
    assert list(entries(packed(tree, below))) == ["a"]
    apply_layer(io.BytesIO(packed(tree, below)), below)
    assert os.readlink(below / "a") == str(outside)
    assert (outside / "b/x").exists()
