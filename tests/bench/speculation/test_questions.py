"""Questions of a file: ours and the rival are measured one after the other, never side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spectrie
from bench.speculation import questions
from bench.support.pairs import Comparison


class Scene:
    """What happens, and whether one of our models is open meanwhile."""

    def __init__(self) -> None:
        self.num_open = 0
        self.events: list[tuple[str, int]] = []

    def note(self, event: str) -> None:
        self.events.append((event, self.num_open))


def one_category_each(folder: Path) -> Path:
    file = folder / "question.jsonl"
    lines = [
        {"question_id": number, "category": category, "turns": ["word " * length]}
        for number, (category, length) in enumerate([("math", 3), ("long", 500), ("rag", 4)])
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scene:
    scene = Scene()

    class FakeTokenizer:
        def apply_chat_template(self, messages: Sequence[dict[str, str]]) -> str:
            return messages[-1]["content"]

        def encode(self, text: str) -> list[int]:
            return [1] * len(text.split())

    class FakeLLM:
        dtype = "float32"
        max_context = 64
        tokenizer = FakeTokenizer()

        def __init__(self, folder: Path, **_: Any) -> None:
            assert folder == tmp_path

        def __enter__(self) -> FakeLLM:
            scene.num_open += 1
            return self

        def __exit__(self, *_: object) -> None:
            scene.num_open -= 1

    def comparison(title: str) -> Comparison:
        return SimpleNamespace(  # type: ignore[return-value]
            summary=lambda: dict.fromkeys(
                ("base_median", "ours_median", "ratio", "ratio_low", "ratio_high"), 1.0
            )
        )

    def ours(*_: Any, title: str, **__: Any) -> tuple[Comparison, dict[str, Any]]:
        scene.note(f"ours {title}")
        return comparison(title), {"prompts": 1, "tokens_per_step": 1.0, "identical": 1}

    def theirs(*_: Any, title: str, **__: Any) -> tuple[Comparison, dict[str, Any]]:
        scene.note(f"rival {title}")
        return comparison(title), {}

    monkeypatch.setattr(spectrie, "LLM", FakeLLM)
    monkeypatch.setattr("spectrie.model.resolve", lambda _: SimpleNamespace(folder=tmp_path))
    monkeypatch.setattr(questions, "_complete_bigrams", lambda _: scene.note("bigrams"))
    monkeypatch.setattr(questions, "Rival", lambda *_: scene.note("load the rival"))
    monkeypatch.setattr(questions, "measure_ours", ours)
    monkeypatch.setattr(questions, "measure_rival", theirs)
    return scene


def test_the_rival_runs_while_no_model_of_ours_is_open(scene: Scene, tmp_path: Path) -> None:
    table = questions.run(
        one_category_each(tmp_path), "any", per_category=1, max_tokens=8, threads=1
    )
    assert scene.events == [
        ("bigrams", 0),
        ("ours math", 1),
        ("ours rag", 1),
        ("load the rival", 0),
        ("rival math", 0),
        ("rival rag", 0),
    ]
    assert "1 turns were left out as too long" in table


def test_none_of_each_category_is_refused_by_the_option_before_anything_runs(
    scene: Scene, tmp_path: Path
) -> None:
    file = one_category_each(tmp_path)
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"--per-category: given {number}; allowed: 1 or more"):
            questions.run(file, "any", per_category=number, max_tokens=8, threads=1)
    assert scene.events == []


def test_questions_that_are_all_too_long_are_named_so(scene: Scene, tmp_path: Path) -> None:
    file = one_category_each(tmp_path)
    with pytest.raises(ValueError, match="no question fits into the context of any"):
        questions.run(file, "any", per_category=1, max_tokens=64, threads=1)
    assert scene.events == [("bigrams", 0)]
