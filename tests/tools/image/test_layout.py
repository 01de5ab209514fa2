"""Layouts of images: digests, blobs that are shared, images that are replaced."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tools.image.layout import Layer, Layout

CONFIG = {"User": "1:1", "Labels": {"a": "b"}}


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """A tree, and one that has a file more."""
    below, tree = tmp_path / "below", tmp_path / "tree"
    for one in (below, tree):
        one.mkdir()
        (one / "etc").write_text("e" * 5000)
        os.utime(one / "etc", (1, 1))
    (tree / "opt").write_text("o")
    return below, tree


def layers(layout: Layout, trees: tuple[Path, Path]) -> list[Layer]:
    below, tree = trees
    found = [layout.add_layer(below, None, "below"), layout.add_layer(tree, below, "tree")]
    return [one for one in found if one is not None]


def blob(folder: Path, digest: str) -> bytes:
    data = (folder / "blobs" / digest.replace(":", "/")).read_bytes()
    assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    return data


def described(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    data = blob(folder, entry["digest"])
    assert len(data) == entry["size"]
    return dict(json.loads(data))


def test_every_digest_and_size_is_that_of_its_blob(
    tmp_path: Path, trees: tuple[Path, Path]
) -> None:
    folder = tmp_path / "layout"
    layout = Layout(folder, 86_400)
    layout.add_image("one", CONFIG, layers(layout, trees), "amd64")
    assert json.loads((folder / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    manifest = described(folder, entry)
    config = described(folder, manifest["config"])
    assert config["config"] == CONFIG
    assert (config["created"], config["architecture"]) == ("1970-01-02T00:00:00Z", "amd64")
    bare = [gzip.decompress(blob(folder, one["digest"])) for one in manifest["layers"]]
    digests = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in bare]
    assert config["rootfs"]["diff_ids"] == digests
    assert len(digests) == len(config["history"]) == 2
    assert layout.size("one") == sum(one["size"] for one in manifest["layers"])
    used = {
        entry["digest"],
        manifest["config"]["digest"],
        *(x["digest"] for x in manifest["layers"]),
    }
    there = {f"sha256:{path.name}" for path in (folder / "blobs/sha256").iterdir()}
    assert there == used


def test_images_share_layers_and_replace_their_namesakes(
    tmp_path: Path, trees: tuple[Path, Path]
) -> None:
    folder = tmp_path / "layout"
    layout = Layout(folder)
    both = layers(layout, trees)
    layout.add_image("two", CONFIG, both, "amd64")
    layout.add_image("one", CONFIG, both[:1], "amd64")
    layout.add_image("two", {"User": "2:2"}, both, "amd64")
    again = Layout(folder)
    assert again.names() == ["one", "two"]
    assert again.config("two") == {"User": "2:2"}
    assert again.size("one") < again.size("two")
    with pytest.raises(KeyError):
        again.config("three")


def test_equal_trees_give_an_equal_layout(tmp_path: Path, trees: tuple[Path, Path]) -> None:
    texts = []
    for name in ("a", "b"):
        layout = Layout(tmp_path / name, 5)
        layout.add_image("one", CONFIG, layers(layout, trees), "amd64")
        texts.append((tmp_path / name / "index.json").read_bytes())
    assert texts[0] == texts[1]


def test_a_layer_without_anything_new_is_none(tmp_path: Path, trees: tuple[Path, Path]) -> None:
    layout = Layout(tmp_path / "layout")
    assert layout.add_layer(trees[0], trees[0], "nothing") is None
    assert list((tmp_path / "layout/blobs/sha256").iterdir()) == []


def test_a_layer_that_is_not_what_its_digest_says_is_refused(
    tmp_path: Path, trees: tuple[Path, Path]
) -> None:
    folder = tmp_path / "layout"
    layout = Layout(folder)
    found = layers(layout, trees)
    layout.add_image("one", CONFIG, found, "amd64")
    layout.unpack("one", tmp_path / "at")
    assert (tmp_path / "at/opt").read_text() == "o"
    path = folder / "blobs" / found[1].digest.replace(":", "/")
    path.write_bytes(gzip.compress(b"another"))
    with pytest.raises(ValueError, match="has the digests"):
        layout.unpack("one", tmp_path / "again")
