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
    """What each way found, or what was wrong with it; or those that are named."""
    found: dict[str, Any] = {}
    for item in items(Settings(dry=True, scratch=str(scratch), model=None, tests=())):
        if named and item.name not in named:
            continue
        try:
            found[item.name] = item.run()
        except Wrong as wrong:
            found[item.name] = str(wrong)
    return found


def test_every_way_gives_the_same_ids_and_does_what_it_is_named_after(tmp_path: Path) -> None:
    found = outcomes(tmp_path)
    reference = found.pop("alone, not drafted")
    assert reference["answers"] == 6 and reference["drafted_tokens"] == 0
    assert all(one["share"] == 1.0 and one["exact"] for one in found.values()), found
    assert found["together, drafted"]["accepted_tokens"] > 0
    assert found["together, drafted, preempted"]["preemptions"] > 0
    assert found["together, not drafted"]["preemptions"] == 0


def test_answers_that_differ_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., Any] = exactness._run

    def wrong(llm: Any, prompts: Any, tokens: int, temperature: float, way: Any) -> Any:
        answers = right(llm, prompts, tokens, temperature, way)
        return [(*ids[:-1], 1) for ids in answers[:1]] + answers[1:] if way.together else answers

    monkeypatch.setattr(exactness, "_run", wrong)
    found = outcomes(tmp_path, "alone, not drafted", "alone, drafted", "together, drafted")
    assert found["together, drafted"] == "2 of 6 answers differ, with exact arithmetic"
    assert found["alone, drafted"]["share"] == 1.0
