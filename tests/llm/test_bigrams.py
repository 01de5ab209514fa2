"""`spectrie.LLM` and the model's bigrams: the same answers without, while and after they are computed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectrie import _core
from spectrie.engine import idle_bigrams, loop
from spectrie.errors import ConfigError
from spectrie.llm import LLM
from spectrie.model.files.bigram_files import bigrams_file, model_hash_of
from spectrie.model.runner.bigrams import BigramTable
from tests.tiny_model import VOCABULARY_SIZE, write_tiny_model

PROMPTS = ["def a", "class the", "for it in", "return not"]
OPTIONS: dict[str, Any] = {"max_tokens": 12, "seed": 3, "ignore_eos": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without bigrams; measurements stay from test to test."""
    cache: Path = tmp_path_factory.getbasetemp() / "llm-bigrams-cache"
    shutil.rmtree(cache / "bigrams", ignore_errors=True)
    monkeypatch.setenv("SPECTRIE_CACHE", str(cache))
    return cache


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token a slice, and no rest before the first: as many slices between steps as can be."""
    monkeypatch.setattr(idle_bigrams, "SLICE_MS", 0.0)
    monkeypatch.setattr(loop, "IDLE_WAIT_S", 0.0)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Rows of each table that an engine is given."""
    given: list[int] = []
    freeze = BigramTable.freeze

    def recorded(table: Any) -> _core.Bigrams:
        given.append(table.num_known)
        return freeze(table)

    monkeypatch.setattr(BigramTable, "freeze", recorded)
    yield given


def start(folder: Path, **options: Any) -> LLM:
    return LLM(folder, dtype="float32", threads=1, num_pages=64, **options)


def answers(llm: LLM) -> list[list[int]]:
    return [list(llm.generate(prompt, **OPTIONS).token_ids) for prompt in PROMPTS]


def test_answers_are_the_same_without_while_and_after_computing(
    folder: Path, eager: None, known: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = VOCABULARY_SIZE // 2
    extend = BigramTable.extend

    def up_to_the_limit(table: Any, max_tokens: int, pages: Any) -> int:
        return extend(table, max_tokens, pages) if table.num_known < limit else 0

    monkeypatch.setattr(BigramTable, "extend", up_to_the_limit)
    with start(folder, bigrams="off") as llm:
        expected = answers(llm)
    assert known == []
    with start(folder) as llm:
        while not known:
            assert answers(llm) == expected
            time.sleep(0.02)
        assert answers(llm) == expected
        assert 0 < known[-1] < VOCABULARY_SIZE
        limit = VOCABULARY_SIZE
        while known[-1] < VOCABULARY_SIZE:
            assert answers(llm) == expected
            time.sleep(0.02)
        assert answers(llm) == expected
    with start(folder) as llm:
        assert known[-1] == VOCABULARY_SIZE
        assert answers(llm) == expected


def test_closing_keeps_what_was_computed_and_waits_for_no_more(
    folder: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = 0
    extend = BigramTable.extend

    def slow(table: Any, max_tokens: int, pages: Any) -> int:
        nonlocal slices
        slices += 1
        time.sleep(0.02)
        return extend(table, max_tokens, pages)

    monkeypatch.setattr(BigramTable, "extend", slow)
    with start(folder) as llm:
        while slices < 3:
            time.sleep(0.005)
    at_the_end = slices
    assert at_the_end < VOCABULARY_SIZE
    path = bigrams_file(llm._host.runner.model_hash)
    assert path is not None
    assert _core.Bigrams.open(path, llm._host.runner.model_hash).num_known == at_the_end


@pytest.mark.parametrize(
    "options", [{"bigrams": "off"}, {"speculation": "off"}, {"max_draft_tokens": 0}]
)
def test_nothing_is_computed_where_nothing_would_be_drafted_from_it(
    folder: Path, cache: Path, eager: None, options: dict[str, Any]
) -> None:
    with start(folder, **options) as llm:
        llm.generate(PROMPTS[0], **OPTIONS)
        time.sleep(0.05)
    assert model_hash_of(folder) is not None
    assert not (cache / "bigrams").exists()


def test_an_unknown_mode_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match='bigrams is "on"; allowed: auto, off'):
        start(folder, bigrams="on")
