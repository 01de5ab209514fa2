"""Answers that depend on how requests are run are a fault that counts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.check import Settings, Wrong
from bench.gpu.end_to_end import exactness
from bench.gpu.end_to_end.exactness import items


def outcomes(scratch: Path, *named: str) -> dict[str, Any]:
    """What each of these ways found, or what was wrong with it."""
    found: dict[str, Any] = {}
    for item in items(Settings(dry=True, scratch=str(scratch), model=None, tests=())):
        if item.name not in named:
            continue
        try:
            found[item.name] = item.run()
        except Wrong as wrong:
            found[item.name] = str(wrong)
    return found


def test_answers_that_differ_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = exactness._run

    def wrong(llm: Any, prompts: Any, tokens: int, temperature: float, way: Any) -> Any:
        answers = right(llm, prompts, tokens, temperature, way)
        return [(*ids[:-1], 1) for ids in answers[:1]] + answers[1:] if way.together else answers

    monkeypatch.setattr(exactness, "_run", wrong)
    found = outcomes(tmp_path, "alone, not drafted", "together, drafted")
    assert found["together, drafted"] == "2 of 6 answers differ, with exact arithmetic"
