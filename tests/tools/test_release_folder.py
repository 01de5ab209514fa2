"""The place of a release: replaced whole, by a release alone, and kept where the next one fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.release.folder import SUMS, Occupied, fresh, write_sums


def release(place: Path, **files: str) -> None:
    """Makes a release of these files."""
    with fresh(place) as folder:
        for name, text in files.items():
            (folder / name).write_text(text)
        assert write_sums(folder) == len(files)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_second_release_takes_the_place_of_the_first(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "release"
    release(place, old="1", both="1")
    release(place, new="2", both="2")
    assert names(place) == {"new", "both", SUMS}
    assert (place / "both").read_text() == "2"
    assert names(place.parent) == {"release"}


def test_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    release(tmp_path / "release", a="abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (tmp_path / "release" / SUMS).read_text() == f"{digest}  a\n"


def test_a_release_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    place = tmp_path / "release"
    release(place, old="1")
    with pytest.raises(RuntimeError), fresh(place) as folder:
        (folder / "half").touch()
        raise RuntimeError
    assert names(place) == {"old", SUMS} and names(tmp_path) == {"release"}


def test_what_a_killed_release_left_is_no_part_of_the_next(tmp_path: Path) -> None:
    (tmp_path / ".release.unfinished").mkdir()
    (tmp_path / ".release.unfinished" / "half").touch()
    release(tmp_path / "release", new="2")
    assert names(tmp_path / "release") == {"new", SUMS}
    assert names(tmp_path) == {"release"}


def test_a_release_that_is_killed_while_it_takes_its_place_loses_none(tmp_path: Path) -> None:
    place, earlier = tmp_path / "release", tmp_path / ".release.earlier"
    release(place, old="1")
    place.rename(earlier)
    with pytest.raises(RuntimeError), fresh(place):
        raise RuntimeError
    assert names(place) == {"old", SUMS} and names(tmp_path) == {"release"}


@pytest.mark.parametrize("has_sums", [False, True])
def test_files_of_others_are_never_replaced(tmp_path: Path, has_sums: bool) -> None:
    place = tmp_path / "release"
    if has_sums:
        release(place, old="1")
    else:
        place.mkdir()
    (place / "mine").touch()
    with pytest.raises(Occupied, match="mine"):
        release(place, new="2")
    assert (place / "mine").exists()
