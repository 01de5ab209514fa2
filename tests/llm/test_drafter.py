"""A drafter beside the model: loaded by its folder, and no answer changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spectrie.errors import ConfigError, InvalidArgument, ModelError
from spectrie.llm import LLM
from spectrie.types import SpeculationOptions
from tests.model.drafters.asked import make_levels_cheap
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
    make_levels_cheap(monkeypatch)
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


def test_a_hit_with_a_head_computes_no_token_more_than_without(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "tiny")
    prompt = [5 + at * 7 % 200 for at in range(100)]
    # The last one leaves the others within a page.
    prompts = [prompt, prompt, prompt, [*prompt[:90], *range(300, 310)]]
    found = []
    for drafter in ("off", str(head)):
        with LLM(model, dtype="float32", threads=1, num_pages=128, drafter=drafter) as llm:
            # One after the other, with nothing to do in between.
            answers = [llm.generate(prompt_token_ids=one, max_tokens=1) for one in prompts]
        found.append([answer.usage.cached_tokens for answer in answers])
    alone, with_head = found
    assert alone[:3] == [0, 96, 96]
    assert alone[3] >= 80
    assert with_head[:3] == alone[:3]
    # One more where a page is copied in part.
    assert with_head[3] >= alone[3] - 1


def test_modes_that_draft_from_a_drafter_alone_need_one(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "tiny")
    asked: dict[str, Any] = {"max_tokens": 60, "temperature": 0.0, "ignore_eos": True}
    chain, tree = (SpeculationOptions(mode=mode) for mode in ("chain", "eagle2"))
    message = "speculation is eagle2, which drafts from a drafter alone, and none is loaded"
    with pytest.raises(ConfigError, match=message):
        LLM(model, threads=1, num_pages=32, speculation="eagle2")
    with LLM(model, threads=1, num_pages=32) as llm:
        plain = llm.generate(TEXTS[0], **asked)
        for mode in (chain, tree):
            with pytest.raises(InvalidArgument, match=r"speculation\.mode.*--drafter PATH"):
                llm.generate(TEXTS[0], speculation=mode, **asked)
    with LLM(model, threads=1, num_pages=32, drafter=str(head)) as llm:
        for mode in (chain, tree):
            found = llm.generate(TEXTS[0], speculation=mode, **asked)
            assert found.token_ids == plain.token_ids
            assert found.speculation.drafted_tokens > 60
            assert set(found.speculation.accepted_by_source) <= {"head"}


@pytest.mark.parametrize(
    "options",
    [
        {"speculation": "off"},
        {"max_draft_tokens": 0},
        {"speculation": "eagle2", "max_draft_tokens": 0},
    ],
)
def test_no_drafter_is_loaded_where_nothing_is_drafted(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    model = write_tiny_model(tmp_path / "tiny")
    for added, is_loaded in ((options, False), ({}, True)):
        with LLM(model, threads=1, num_pages=16, drafter=str(head), **added) as llm:
            native = llm._host.runner.native
            # So forwards write no entries either.
            assert native is not None and native.drafts == is_loaded
