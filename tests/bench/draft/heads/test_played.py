"""The engine that serves asks a head where it pays: recorded texts at given costs, so equal figures on any machine."""

from __future__ import annotations

import pytest

from bench.draft import trace
from bench.draft.bigrams import FILE
from bench.draft.heads.played import Costs, Played, Text, play, texts_of, whole_bigrams
from bench.draft.heads.waking import waits
from spectrie import _core


@pytest.fixture(scope="module")
def bigrams() -> _core.Bigrams:
    return whole_bigrams(trace.folder("choose") / FILE)


def played(texts: list[Text], bigrams: _core.Bigrams, *, head: bool, at_a_time: int = 1) -> Played:
    """Without upkeep, which no decision changes."""
    costs = Costs(upkeep=0.0)
    return play(texts, head=head, at_a_time=at_a_time, costs=costs, bigrams=bigrams)


def gain(texts: list[Text], bigrams: _core.Bigrams, at_a_time: int = 1) -> float:
    """Time without the head over time with it."""
    without = played(texts, bigrams, head=False, at_a_time=at_a_time)
    beside = played(texts, bigrams, head=True, at_a_time=at_a_time)
    return without.milliseconds / beside.milliseconds


def test_chat_is_faster_with_the_head_and_edits_are_not_slower(bigrams: _core.Bigrams) -> None:
    assert gain(texts_of("chat", "choose"), bigrams) > 1.06
    edits = texts_of("edits", "choose")
    assert gain(edits, bigrams) > 0.99
    assert gain(edits, bigrams, at_a_time=8) > 0.99


def test_beside_others_rows_are_dear_and_the_head_is_asked_less(bigrams: _core.Bigrams) -> None:
    texts = texts_of("chat", "choose")
    alone = played(texts, bigrams, head=True)
    together = played(texts, bigrams, head=True, at_a_time=8)
    assert together.asked < 0.6 * alone.asked
    assert gain(texts, bigrams, at_a_time=8) > 0.99


def test_it_is_asked_soon_after_edits_become_chat() -> None:
    waited = waits("choose")
    assert len(waited) == 8
    for number, steps in enumerate(waited):
        assert steps is not None and steps <= 64, f"mix {number}: {steps} steps"


def test_equal_texts_give_equal_figures(bigrams: _core.Bigrams) -> None:
    texts = texts_of("edits", "choose")[:4]
    first, second = (played(texts, bigrams, head=True, at_a_time=2) for _ in range(2))
    assert first == second
    assert first.tokens == sum(len(text.request.output_ids) for text in texts)
