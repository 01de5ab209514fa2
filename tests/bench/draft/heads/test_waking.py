"""How soon a head is asked once its text becomes one that it knows."""

from __future__ import annotations

from bench.draft.heads.played import texts_of
from bench.draft.heads.waking import mixes, steps_until_asked


def test_half_of_eight_steps_count_as_asked() -> None:
    assert steps_until_asked([True, False] * 8) == 0
    assert steps_until_asked([True, *[False] * 9, *[True] * 4]) == 6
    assert steps_until_asked([True, *[False] * 20, True]) is None
    assert steps_until_asked([]) is None


def test_a_mix_holds_three_edits_and_then_three_chats() -> None:
    edits, chat = texts_of("edits", "choose"), texts_of("chat", "choose")
    found = mixes(edits, chat)
    assert len(found) == min(len(edits), len(chat)) // 3
    text, change = found[1]
    parts = [*edits[3:6], *chat[3:6]]
    assert change == sum(len(one.request.output_ids) for one in edits[3:6])
    assert text.request.output_ids == [token for one in parts for token in one.request.output_ids]
