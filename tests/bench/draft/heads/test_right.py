"""How often a head is right along recorded text."""

from __future__ import annotations

from bench.draft.heads.right import count_right
from bench.draft.recording.head_file import HeadAnswers
from tests.bench.draft.heads.perfect import perfect_answers


def test_a_perfect_head_is_right_wherever_text_is_left() -> None:
    output = [7, 8, 9]
    found = count_right([perfect_answers(output, levels=3)], [output])
    assert found.asked == found.right == [3, 2, 1]
    assert found.shares == [1.0, 1.0, 1.0]


def test_a_level_counts_only_where_all_before_were_right() -> None:
    def answers(*tokens: int) -> list[list[list[float]]]:
        return [[[token], [0.5], [], []] for token in tokens]

    # Right and wrong; wrong, so its second level is none; silent.
    places: HeadAnswers = [answers(7, 1), answers(1, 9), [[[], [], [], []]]]
    found = count_right([places], [[7, 8, 9]])
    assert (found.asked, found.right) == ([3, 1], [1, 0])
