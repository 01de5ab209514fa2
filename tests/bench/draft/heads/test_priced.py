"""What a head is worth, over orders of texts."""

from __future__ import annotations

from bench.draft.heads.played import texts_of
from bench.draft.heads.priced import orders


def test_orders_hold_all_texts_and_the_first_is_that_of_the_trace() -> None:
    texts = texts_of("edits", "choose")
    several = orders(texts, 3)
    assert several == orders(texts, 3)
    assert several[0] == texts
    for order in several[1:]:
        assert order != texts
        assert all(text in order for text in texts) and len(order) == len(texts)
