"""What a head is worth, over orders of texts."""

from __future__ import annotations

from bench.draft.heads.played import texts_of
from bench.draft.heads.priced import orders


def test_orders_hold_all_texts_and_the_first_is_that_of_the_trace() -> None:
    texts = texts_of("edits", "choose")
    several = orders(texts, 6)
    assert several == orders(texts, 6)
    assert [len(chain) for chain in several] == [4 * len(texts), 2 * len(texts)]
    rows = [
        chain[at : at + len(texts)] for chain in several for at in range(0, len(chain), len(texts))
    ]
    assert rows[0] == texts
    for order in rows[1:]:
        assert order != texts
        assert all(text in order for text in texts)
