"""Recorded answers in place of a model's own: every way of drafting gives them, and thinning shortens drafts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from bench.draft.trace import Request
from bench.gpu.check import Settings
from bench.gpu.end_to_end.playback import Playback, thinned
from bench.gpu.end_to_end.played import _found_share
from bench.gpu.end_to_end.requests import recorded
from bench.gpu.models.shapes import TINY
from bench.gpu.steps.loaded import dry_options, folder_of, on_device
from spectrie import LLM
from spectrie.types import Completion, SpeculationOptions


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    found = Settings(dry=True, scratch=str(tmp_path), model=None, tests=())
    with mock.patch.dict(os.environ), on_device(found):
        yield found


def played(settings: Settings, requests: list[Request], enabled: bool) -> list[Completion]:
    playback = Playback()
    with (
        playback.engines(),
        LLM(
            folder_of(settings, TINY),
            device="cuda",
            bigrams="off",
            drafting_cost_ms=0.0,
            **dry_options(settings),
        ) as llm,
    ):
        playback.play_on(llm)
        speculation = SpeculationOptions(enabled=enabled)
        answers = [playback.answer(llm, one, speculation=speculation) for one in requests]
    assert playback.replacing_seconds > 0
    return answers


@pytest.mark.parametrize("enabled", [False, True])
def test_answers_are_those_recorded(settings: Settings, enabled: bool) -> None:
    requests = recorded(settings, "any")
    answers = played(settings, requests, enabled)
    assert [list(one.token_ids) for one in answers] == [one.output_ids for one in requests]
    assert (sum(one.speculation.accepted_tokens for one in answers) > 0) == enabled


def test_likeliest_tokens_are_those_recorded_and_none_off_the_recorded_text() -> None:
    playback = Playback()
    topk = [([6, 9], [0.5, 0.25]), ([7], [0.75]), ([], [])]
    llm: Any = SimpleNamespace(generate=lambda **_: next(llm._handles))
    playback.play_on(llm)
    handle = playback.answer(llm, Request([5, 6], [7], topk=topk))

    def integers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.array(values, np.int32)

    plan: Any = SimpleNamespace(
        row_token=integers(5, 6, 8),
        row_position=integers(0, 1, 1),
        row_parent=integers(-1, 0, 0),
        row_owner=integers(0, 0, 0),
        request_row_start=integers(0),
        request_row_count=integers(3),
        request_handle=np.array([handle], np.uint64),
        sample_rows=integers(1, 2),
        top_rows=integers(0, 1, 2),
    )
    tokens, ids, probabilities = playback.results(plan)
    # Where the text was left, any token will do: none reaches it.
    assert tokens.tolist() == [7, 0]
    assert ids[:, :3].tolist() == [[6, 9, -1], [7, -1, -1], [-1, -1, -1]]
    assert probabilities[:, :2].tolist() == [[0.5, 0.25], [0.75, 0.0], [0.0, 0.0]]


def test_a_text_that_was_not_recorded_is_noticed() -> None:
    from bench.gpu.end_to_end.playback import _on_path

    assert _on_path([5, 6, 7, 8], [6, 7, 9, 8], [1, 2, 2, 3], [-1, 0, 0, 1]) == [1, 2, -1, 3]
    # What comes after a wrong token is wrong too, even if it is the recorded one there.
    assert _on_path([5, 6, 7, 8], [6, 9, 8], [1, 2, 3], [-1, 0, 1]) == [1, -1, -1]
    with pytest.raises(RuntimeError, match="the token at 1 is 7, which was not recorded"):
        _on_path([5, 6], [7], [1], [-1])


def test_thinned_answers_keep_their_prompts_and_lengths() -> None:
    requests = [Request([1, 2], [3] * 1000)]
    (one,) = thinned(requests, 0.25, 50_000)
    changed = sum(token != 3 for token in one.output_ids)
    assert one.prompt_ids == [1, 2] and len(one.output_ids) == 1000
    assert 200 < changed < 300
    assert thinned(requests, 0.25, 50_000) == [one]
    assert thinned(requests, 0.0, 50_000) == requests


@pytest.mark.parametrize("wanted", [1.2, 2.0, 4.8])
def test_the_share_that_is_found_gives_nearly_the_wanted_length(wanted: float) -> None:
    share, length = _found_share(lambda share: 1 + 9 * (1 - share) ** 3, wanted)
    assert length == pytest.approx(wanted, rel=0.06)
    assert 0 < share < 1


def test_answers_that_are_shorter_already_stay_as_they_are() -> None:
    assert _found_share(lambda share: 1.4, 1.45) == (0.0, 1.4)
