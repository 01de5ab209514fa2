"""`spectrie models bigrams` computes the table that `spectrie replay --bigrams` drafts from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectrie._core import Bigrams
from spectrie.cli import main
from spectrie.model.files.bigram_files import bigrams_file, model_hash_of
from tests.tiny_model import VOCABULARY_SIZE, write_tiny_model

COUNTED = list(range(200, 212))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    return write_tiny_model(tmp_path / "tiny")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps({"prompt_ids": [150, *COUNTED[:1]], "output_ids": COUNTED[1:]}))
    return str(path)


def counting() -> Bigrams:
    """Each token is followed by the next one."""
    ids = np.zeros((VOCABULARY_SIZE, 8), np.int32)
    probabilities = np.zeros((VOCABULARY_SIZE, 8), np.float32)
    ids[:, 0] = (np.arange(VOCABULARY_SIZE) + 1) % VOCABULARY_SIZE
    probabilities[:, 0] = 0.9
    return Bigrams(ids, probabilities)


def accepted(capsys: pytest.CaptureFixture[str], trace: str, *arguments: str) -> int:
    assert main(["replay", "--json", "--input", trace, *arguments]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    count: int = report["accepted_by_source"]["recycled"]
    return count


def test_a_table_is_computed_once_and_its_file_printed(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "bigrams", str(model)]) == 0
    output = capsys.readouterr()
    path = Path(output.out.strip())
    assert f"bigrams of {VOCABULARY_SIZE} tokens" in output.err
    model_hash = model_hash_of(model)
    assert model_hash is not None and path == bigrams_file(model_hash)
    assert Bigrams.open(path, model_hash).num_known == VOCABULARY_SIZE
    written = path.stat().st_mtime_ns
    assert main(["models", "bigrams", str(model)]) == 0
    assert path.stat().st_mtime_ns == written


def test_a_damaged_file_is_told_and_computed_again(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_hash = model_hash_of(model)
    assert model_hash is not None
    path = bigrams_file(model_hash)
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_text("nothing of the kind")
    assert main(["models", "bigrams", str(model)]) == 0
    assert "computing it again: " in capsys.readouterr().err
    assert Bigrams.open(path, model_hash).num_known == VOCABULARY_SIZE


def test_a_replay_drafts_from_the_stored_table_of_its_model(
    model: Path, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model_hash = model_hash_of(model)
    assert model_hash is not None
    path = bigrams_file(model_hash)
    assert path is not None
    assert accepted(capsys, trace, "--model", str(model)) == 0
    path.parent.mkdir(parents=True)
    counting().save(path, model_hash)
    found = accepted(capsys, trace, "--model", str(model))
    assert found >= len(COUNTED) // 2
    assert accepted(capsys, trace, "--bigrams", str(path)) == found
    assert accepted(capsys, trace, "--model", str(model), "--bigrams", "off") == 0
    assert accepted(capsys, trace) == 0


def test_a_table_that_cannot_be_used_is_refused(
    model: Path, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "other.bigrams"
    counting().save(foreign, "other")
    for path, message in (
        (str(foreign), "model other, expected model"),
        (str(tmp_path / "none.bigrams"), "none.bigrams"),
    ):
        given = ["--model", str(model), "--bigrams", path]
        assert main(["replay", "--input", trace, *given]) == 2
        error = capsys.readouterr().err
        assert f"--bigrams {path}: " in error and message in error
