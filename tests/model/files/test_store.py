"""Entries of the cache appear whole, once, and in the right place."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from spectrie.errors import ModelError
from spectrie.model.files.store import (
    cache_folder,
    check_space,
    entry,
    models_folder,
    publish,
    remove,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def silent(_line: str) -> None: ...


def has_file(folder: Path) -> bool:
    return (folder / "file").is_file()


def write_file(folder: Path) -> None:
    (folder / "file").write_text("contents")


def test_the_cache_is_where_the_first_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert cache_folder() == Path("/a")
    monkeypatch.delenv("SPECTRIE_CACHE")
    assert cache_folder() == Path("/b/spectrie")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/c/.cache/spectrie")
    monkeypatch.delenv("HOME")
    with pytest.raises(ModelError, match="SPECTRIE_CACHE"):
        cache_folder()


def test_a_folder_that_cannot_be_written_is_an_error_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").write_text("")
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "plain"))
    with pytest.raises(ModelError, match="set SPECTRIE_CACHE to a writable folder"):
        publish("model", has_file, write_file, silent)


def test_an_entry_is_made_once_and_found_afterwards() -> None:
    folder = publish("model", has_file, write_file, silent)
    assert folder == entry("model")
    assert (folder / "file").read_text() == "contents"

    def refuse(_folder: Path) -> None:
        raise AssertionError("made twice")

    assert publish("model", has_file, refuse, silent) == folder


@pytest.mark.parametrize("error", [ModelError("no"), KeyboardInterrupt()])
def test_an_interrupted_entry_leaves_nothing(error: BaseException) -> None:
    def fail(folder: Path) -> None:
        write_file(folder)
        raise error

    with pytest.raises(type(error)):
        publish("model", has_file, fail, silent)
    assert not entry("model").exists()
    assert [p.name for p in models_folder().iterdir()] == [".model.lock"]


def test_a_killed_runs_leftovers_and_a_damaged_entry_are_replaced() -> None:
    leftover = models_folder() / ".partial-model-12345"
    leftover.mkdir(parents=True)
    (leftover / "half").write_text("x")
    entry("model").mkdir()
    (entry("model") / "stale").write_text("x")
    other = models_folder() / ".partial-model-2-9"
    other.mkdir()
    folder = publish("model", has_file, write_file, silent)
    assert [p.name for p in folder.iterdir()] == ["file"]
    assert not leftover.exists()
    assert other.exists()  # belongs to the model named model-2


def test_several_at_once_make_an_entry_one_time() -> None:
    made: list[Path] = []
    waiting = threading.Event()

    def slow(folder: Path) -> None:
        made.append(folder)
        # Until another one says that it waits: both were here before the entry was.
        assert waiting.wait(20)
        write_file(folder)

    def report(line: str) -> None:
        assert "waiting" in line
        waiting.set()

    results: list[Path] = []

    def work() -> None:
        results.append(publish("model", has_file, slow, report))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [entry("model")] * 3
    assert len(made) == 1


def test_too_little_space_is_told_with_both_figures(tmp_path: Path) -> None:
    check_space(tmp_path, 1)
    with pytest.raises(ModelError, match=r"not enough disk space .* MB needed, \d+ MB free"):
        check_space(tmp_path, 1 << 60)


def test_a_removed_entry_is_gone() -> None:
    publish("model", has_file, write_file, silent)
    assert remove("model", silent)
    assert not entry("model").exists()
    assert not remove("model", silent)
