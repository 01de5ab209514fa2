"""A root that is made once: whole in its place or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tools.image.base import suite_of
from tools.image.kept import keep, kept_root
from tools.image.root import Failed
from tools.kube.node.dockerfile import arguments


def make(folder: Path) -> None:
    (folder / "usr").mkdir(parents=True)


def fail(folder: Path) -> None:
    make(folder)
    raise Failed("no mirror answers")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def test_root_is_made_once(tmp_path: Path) -> None:
    place = tmp_path / "roots" / "one"
    keep(place, make)
    keep(place, fail)
    assert names(place) == {"usr"}
    assert names(place.parent) == {"one"}


def test_a_root_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no mirror answers"):
        keep(tmp_path / "one", fail)
    assert names(tmp_path) == set()


def test_what_a_killed_making_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".unfinished.abc" / "root").mkdir(parents=True)
    keep(tmp_path / "one", make)
    assert names(tmp_path) == {"one"}


def test_root_is_of_the_debian_that_images_are_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    suite = suite_of(arguments(ROOT / "deploy" / "Dockerfile")["BASE"])
    assert kept_root().parent == tmp_path / "roots"
    assert kept_root().name.startswith(f"{suite}-")
