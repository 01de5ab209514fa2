"""The folder of images: replaced whole, and kept where the next making fails or was killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.image import __main__ as command
from tools.image.layout import Layout
from tools.image.root import Failed


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the images of one making lie."""
    place = tmp_path / "images"
    monkeypatch.setattr(command, "missing", lambda: None)
    monkeypatch.setattr(command, "_build", build)
    monkeypatch.setattr(sys, "argv", ["tools.image", str(place)])
    assert command.main() == 0
    return place


def build(folder: Path, scratch: Path, _: object) -> None:
    tree = scratch / "tree"
    (tree / "etc").mkdir(parents=True)
    layout = Layout(folder)
    layer = layout.add_layer(tree, None, "test")
    assert layer is not None
    layout.add_image("cpu", {}, [layer], "amd64")


def fail(*_: object) -> None:
    raise Failed("no mirror answers")


def test_images_take_the_place_of_earlier_ones(place: Path) -> None:
    (place / "old").touch()
    assert command.main() == 0
    assert Layout(place).names() == ["cpu"] and not (place / "old").exists()
    assert list(place.parent.iterdir()) == [place]


@pytest.mark.parametrize("was_killed", [False, True])
def test_images_that_cannot_be_made_leave_the_earlier_ones(
    place: Path, monkeypatch: pytest.MonkeyPatch, was_killed: bool
) -> None:
    if was_killed:  # between the two renames
        place.rename(place.with_name(".images.earlier"))
    monkeypatch.setattr(command, "_build", fail)
    assert command.main() == 1
    assert Layout(place).names() == ["cpu"]
    assert list(place.parent.iterdir()) == [place]


def test_a_folder_of_something_else_is_refused(place: Path) -> None:
    (place / "oci-layout").unlink()
    assert command.main() == 2
    assert (place / "index.json").exists()
