"""How soon a head that sleeps on edits is asked, once they become chat."""

from __future__ import annotations

from collections.abc import Sequence

from bench.draft import trace
from bench.draft.bigrams import FILE
from bench.draft.heads.played import Costs, Text, joined, play, texts_of, whole_bigrams

__all__ = ["mixes", "steps_until_asked", "waits"]

_IN_A_ROW = 3
_WINDOW = 8


def waits(split: str) -> list[int | None]:
    """Returns, for each mix of a split, the steps from its change on until the head is asked in half of eight steps;
    None where it never is. Upkeep costs nothing, as it has no part in that.

    Args:
        split: report, choose or tune.
    """
    bigrams = whole_bigrams(trace.folder(split) / FILE)
    found = []
    for text, change in mixes(texts_of("edits", split), texts_of("chat", split)):
        played = play([text], head=True, at_a_time=1, costs=Costs(upkeep=0.0), bigrams=bigrams)
        asked = [levels > 0 for tokens, levels in played.steps if tokens >= change]
        found.append(steps_until_asked(asked))
    return found


def mixes(edits: Sequence[Text], chat: Sequence[Text]) -> list[tuple[Text, int]]:
    """Three edits, then three chats, as one answer; and the tokens before its change."""
    found = []
    for first in range(0, min(len(edits), len(chat)) - _IN_A_ROW + 1, _IN_A_ROW):
        begun = edits[first : first + _IN_A_ROW]
        change = sum(len(one.request.output_ids) for one in begun)
        found.append((joined([*begun, *chat[first : first + _IN_A_ROW]]), change))
    return found


def steps_until_asked(asked: Sequence[bool]) -> int | None:
    """Where the first eight steps begin of which half ask."""
    for at in range(len(asked)):
        if 2 * sum(asked[at : at + _WINDOW]) >= _WINDOW:
            return at
    return None
