"""A runner with a drafter, fed by hand as the engine would."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectrie.model import Runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.plan import StepPlan

__all__ = ["Request", "draft_path", "feed"]

PAGE = 16


class Request:
    """A request's pages, committed tokens, and the feature moves it owes.

    Args:
        pages: Its page table.
        seat: Its seat.
        runner: The runner.
    """

    def __init__(self, runner: Runner, pages: Sequence[int], seat: int = 0) -> None:
        self.runner = runner
        self.pages = list(pages)
        self.store = runner.num_pages + seat
        self.kv_len = 0
        self.first = 0
        """Position of the first token that it is followed from."""
        self.moves: list[tuple[int, int]] = []
        self.copies: list[tuple[int, int]] = []
        self.text: list[int] = []
        drafter = runner.drafter
        self._makes_keys = drafter is not None and not drafter.needs_features
        self._made = 0

    def chunk(self, tokens: Sequence[int]) -> StepPlan:
        """A plan of the next tokens."""
        self.text = [*self.text[: self.kv_len], *tokens]
        return StepPlan.single(
            tokens,
            kv_len=self.kv_len,
            pages=self.pages[: -(-(self.kv_len + len(tokens)) // PAGE)],
            feature=self.store if self.kv_len else -1,
            first=self.first,
            feature_moves=self.moves,
            feature_copies=self.copies,
        )

    def commit(self, first_row: int, count: int) -> None:
        """Takes rows of the last forward, one behind the other, as committed."""
        self.moves, self.copies = [], []
        for row in range(count):
            self.kv_len += 1
            if self.kv_len % PAGE == 0:
                self.moves.append((first_row + row, self.pages[self.kv_len // PAGE - 1]))
        self.moves.append((first_row + count - 1, self.store))

    def hit(self, num_pages: int, other: Request) -> None:
        """Takes the first pages as computed by another request."""
        self.kv_len = num_pages * PAGE
        self.text = other.text[: self.kv_len]
        self._made = min(other._made // PAGE * PAGE, self.kv_len)
        self.copies = [(self.pages[num_pages - 1], self.store)]

    def asked(self) -> tuple[int, int, list[int]]:
        """The request in a level."""
        return self.kv_len, self.store, self.pages[: -(-self.kv_len // PAGE)]

    def fill(self) -> tuple[int, list[int]]:
        """What a drafter without features makes keys of before it is asked for the first time."""
        if not self._makes_keys:
            return 0, []
        start, self._made = self._made, self.kv_len
        return start, self.text[start : self.kv_len]


def feed(request: Request, tokens: Sequence[int], size: int) -> None:
    """Computes tokens in chunks."""
    for first in range(0, len(tokens), size):
        chunk = tokens[first : first + size]
        request.runner.step(request.chunk(chunk))
        request.commit(0, len(chunk))


def draft_path(
    request: Request, guesses: Sequence[int], scored: Sequence[int] = ()
) -> list[Answers]:
    """Answers behind each guess of a path; the first is the last emitted token."""
    answers = []
    for level, token in enumerate(guesses):
        plan = LevelPlan.of(
            [request.asked()],
            [(token, request.kv_len + level, 0, level - 1)],
            level=level + 1,
            row_index=level,
            scored=[scored],
            moves=request.moves,
            copies=request.copies,
            fills=[request.fill()],
            firsts=[request.first],
        )
        request.moves, request.copies = [], []
        answers.append(request.runner.draft(plan))
    return answers


def same(one: Sequence[Answers], other: Sequence[Answers]) -> bool:
    """Whether answers are the same bytes."""
    return len(one) == len(other) and all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True)
        for a, b in zip(one, other, strict=True)
        for name in Answers.__slots__
    )
