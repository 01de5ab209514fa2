"""What a head answers along recorded texts, from the forward and the levels that serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.draft.recording.head_file import HeadAnswers
from spectrie.model.drafters import LevelPlan
from spectrie.model.plan import StepPlan

if TYPE_CHECKING:
    from spectrie.model import Runner
    from spectrie.model.drafters import Answers

__all__ = ["LEVELS", "levels_of", "record_answers"]

LEVELS = 5
"""Levels that are recorded at each output token, by a drafter that answers so many."""


def levels_of(runner: Runner) -> int:
    """Levels that are recorded of a runner's drafter.

    Raises:
        ValueError: There is none.
    """
    if runner.drafter is None:
        raise ValueError("answers are recorded of a model with a drafter")
    return min(LEVELS, runner.drafter.max_levels)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a head is asked: the output token that it drafts first, and the text position before that."""

    index: int
    root: int


class _Text:
    """One text in the cache of a runner that serves nobody.

    Args:
        runner: With a drafter beside it.
        tokens: Prompt and output.
    """

    def __init__(self, runner: Runner, tokens: Sequence[int]) -> None:
        self._runner = runner
        self._levels = levels_of(runner)
        self._tokens = tokens
        size = runner.page_size
        self._pages = list(range(-(-len(tokens) // size)))
        if len(self._pages) > runner.num_pages or len(tokens) > runner.max_context:
            most = min(runner.max_context, runner.num_pages * size)
            raise ValueError(f"a text has {len(tokens)} tokens; allowed: 1 to {most}")
        # The row of the feature store that goes on to the next chunk; those behind it hold one chunk's.
        self._carried = runner.num_pages
        self._carry: list[tuple[int, int]] = []

    def compute(self, first: int, count: int) -> None:
        """Computes the next tokens: their features are those of the last forward then."""
        plan = StepPlan.single(
            self._tokens[first : first + count],
            kv_len=first,
            pages=self._up_to(first + count),
            sample_rows=[],
            feature=self._carried if first else -1,
            feature_moves=self._carry,
            page_size=self._runner.page_size,
        )
        self._runner.step(plan)
        self._carry = [(count - 1, self._carried)]

    def ask(
        self, places: Sequence[_Place], first: int, names: Sequence[Sequence[int]]
    ) -> list[list[list[list[float]]]]:
        """What the drafter says at some places, by level; their features are of the forward from `first` on.

        All are asked at once, as requests of their own would be: rows do not depend on one another.
        """
        seat = self._carried + 1
        moves = [(place.root - 1 - first, seat + row) for row, place in enumerate(places)]
        requests = [
            (place.root, seat + row, self._up_to(place.root)) for row, place in enumerate(places)
        ]
        found: list[list[list[list[float]]]] = [[] for _ in places]
        # By place, the number of its row on the level before.
        above: dict[int, int] = dict.fromkeys(range(len(places)), -1)
        num_rows = 0
        for level in range(self._levels):
            # The last output token has nothing behind it.
            asked = [row for row in above if places[row].root + level < len(self._tokens) - 1]
            if not asked:
                break
            scored = [list(names[places[row].index + level]) for row in asked]
            plan = LevelPlan.of(
                requests,
                [
                    (self._tokens[(at := places[row].root + level)], at, row, above[row])
                    for row in asked
                ],
                level=level + 1,
                row_index=num_rows,
                scored=scored,
                moves=[] if level else moves,
            )
            answers = self._runner.draft(plan)
            scores = iter(np.split(answers.scored, plan.scored_indptr[1:-1]))
            for index, row in enumerate(asked):
                found[row].append(_entry(answers, index, scored[index], next(scores)))
            above = {row: num_rows + index for index, row in enumerate(asked)}
            num_rows += len(asked)
        return found

    def _up_to(self, kv_len: int) -> list[int]:
        return self._pages[: -(-kv_len // self._runner.page_size)]


def record_answers(
    runner: Runner, prompt: Sequence[int], output: Sequence[int], names: Sequence[Sequence[int]]
) -> HeadAnswers:
    """Asks the runner's drafter at each output token, teacher-forced; overwrites the cache.

    The model computes the recorded text, so features and entries are those that serving it would leave. At each
    output token, the drafter is asked level by level down the output, with its own state from the second on.

    Args:
        runner: A model on a CPU with a drafter, that serves nobody.
        prompt: Token ids, at least one.
        output: Token ids.
        names: For each output token, further tokens whose probability is wanted.

    Returns:
        As `spectrie replay` reads them. The first output token has none where the prompt is one token: a
        drafter needs the state of a token before the last one.

    Raises:
        ValueError: The text does not fit the cache, or there is no drafter.
    """
    tokens = [*prompt, *output]
    text = _Text(runner, tokens)
    found: HeadAnswers = [[] for _ in output]
    # All levels of the places that are asked together are rows of one step.
    together = max(1, runner.max_batch_rows // LEVELS)
    places = [_Place(index, len(prompt) - 1 + index) for index in range(len(output))]
    places = [place for place in places if place.root > 0]
    for first in range(0, len(tokens), runner.max_batch_rows):
        count = min(runner.max_batch_rows, len(tokens) - first)
        text.compute(first, count)
        here = [place for place in places if first < place.root <= first + count]
        for start in range(0, len(here), together):
            group = here[start : start + together]
            for place, levels in zip(group, text.ask(group, first, names), strict=True):
                found[place.index] = levels
    return found


def _entry(
    answers: Answers,
    row: int,
    named: Sequence[int],
    scores: np.ndarray[tuple[int], np.dtype[np.float32]],
) -> list[list[float]]:
    """One answer: its likeliest tokens with their probabilities, and those of named tokens beyond them."""
    pairs = zip(answers.ids[row].tolist(), answers.probabilities[row].tolist(), strict=True)
    likeliest = {token: probability for token, probability in pairs if token >= 0}
    others = {
        token: min(float(np.exp(score)), 1.0)
        for token, score in zip(named, scores.tolist(), strict=True)
        if token not in likeliest and np.isfinite(score)
    }
    return [
        list(likeliest),
        [_rounded(probability) for probability in likeliest.values()],
        list(others),
        [_rounded(probability) for probability in others.values()],
    ]


def _rounded(probability: float) -> float:
    return float(f"{probability:.4g}")
