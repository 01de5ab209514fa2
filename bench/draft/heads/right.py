"""How often a head is right along recorded text, level by level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.draft.recording.head_file import HeadAnswers

__all__ = ["Right", "count_right"]


@dataclass(slots=True)
class Right:
    """Counts by level.

    Attributes:
        asked: Places where the head was right at all levels before.
        right: Those where its likeliest token is the one that came.
    """

    asked: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    @property
    def shares(self) -> list[float]:
        """How often it was right where it was asked, by level."""
        return [right / asked for right, asked in zip(self.right, self.asked, strict=True)]


def count_right(answers: Iterable[HeadAnswers], outputs: Iterable[list[int]]) -> Right:
    """Counts at each token of each output.

    Args:
        answers: Of each request in turn.
        outputs: What each answered.
    """
    found = Right()
    for places, output in zip(answers, outputs, strict=True):
        for index, levels in enumerate(places):
            for level, ((likeliest, *_), token) in enumerate(
                zip(levels, output[index:], strict=False)
            ):
                if level == len(found.asked):
                    found.asked.append(0)
                    found.right.append(0)
                found.asked[level] += 1
                if likeliest[:1] != [token]:
                    break
                found.right[level] += 1
    return found
