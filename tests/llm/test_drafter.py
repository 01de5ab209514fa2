"""A drafter beside the model: loaded by its folder, and no answer changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.errors import ModelError
from spectrie.llm import LLM
from tests.model.drafters.heads import write_tiny_head
from tests.tiny_model import Shape, write_tiny_model

TEXTS = ["def a class the for it in if else while with self None True", "return not", "import"]


@pytest.fixture
def head(tmp_path: Path) -> Path:
    return write_tiny_head(tmp_path / "head")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_answers_are_the_same_with_a_drafter(
    tmp_path: Path, head: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "tiny")
    found = []
    for drafter in ("off", str(head)):
        with LLM(model, dtype=dtype, threads=2, num_pages=128, drafter=drafter) as llm:
            answers = [
                *llm.generate(TEXTS, max_tokens=200, temperature=0.8, seed=3),
                # Those find the beginnings of their texts in the cache.
                *llm.generate(TEXTS, max_tokens=40, temperature=0.0),
            ]
            found.append([answer.token_ids for answer in answers])
            levels = llm.load().head_levels
    assert found[0] == found[1]
    assert levels > 0, "it was not even tried"


def test_a_drafter_of_another_model_is_refused_when_loaded(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "tiny", shape=Shape(hidden=80))
    with pytest.raises(
        ModelError, match=r"fc\.weight has shape \(48, 128\), expected \(48, k \* 80\)"
    ):
        LLM(model, num_pages=8, drafter=str(head))
