"""Notes what a drafter of `spectrie.LLM` was asked, and whether its guesses were what followed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from spectrie import _core
from spectrie.model import Runner
from spectrie.model.drafters import Answers
from spectrie.model.plan import PlanArrays, StepResult
from spectrie.model.runner.drafting import DraftCosts, Drafting

__all__ = ["Asked", "make_levels_cheap", "make_levels_pay"]


@dataclass(frozen=True, slots=True)
class _Guess:
    """Tokens behind what was committed, where they begin, and the likeliest token behind them."""

    start: int
    path: tuple[int, ...]
    token: int


def make_levels_cheap(patch: pytest.MonkeyPatch) -> None:
    """Has engines believe that forwards are slow and levels next to nothing, so that levels are asked."""
    patch.setattr(Runner, "measure_costs", lambda _: ([1, 64], [10.0, 20.0]))

    def measured(drafting: Drafting, *_: object) -> DraftCosts:
        fills = [] if drafting.needs_features else [0.001, 0.002]
        return DraftCosts([1, 64], [0.01, 0.02], [0.01, 0.02], 0.0, fills)

    patch.setattr(Drafting, "measure", measured)


def make_levels_pay(patch: pytest.MonkeyPatch) -> None:
    """As `make_levels_cheap`, for good: steps are called from Python, by a clock whose forwards take 10 ms
    and whose levels next to nothing, however long they take.
    """
    make_levels_cheap(patch)
    clock, step = _Clock(), Runner.step

    def timed(runner: Runner, plan: PlanArrays) -> StepResult:
        clock.now_s += 0.01
        return step(runner, plan)

    patch.setattr(Runner, "native", property(lambda _: None))
    patch.setattr(Runner, "step", timed)
    patch.setattr("spectrie.engine.python_steps.time", clock)


class _Clock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()

    def monotonic(self) -> float:
        self.now_s += 1e-6
        return self.now_s


class Asked:
    """Notes every answer of every runner from now on.

    Args:
        patch: Ends it.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.guesses: list[_Guess] = []
        self.most_levels = 0
        self._paths: list[tuple[int, tuple[int, ...]]] = []
        draft = Runner.draft

        def noting(runner: Runner, plan: _core.DraftPlan) -> Answers:
            answers = draft(runner, plan)
            self._note(plan, answers)
            return answers

        patch.setattr(Runner, "draft", noting)
        # Then steps are called from Python, where levels can be seen.
        patch.setattr(Runner, "native", property(lambda _: None))

    def _note(self, plan: _core.DraftPlan, answers: Answers) -> None:
        self.most_levels = max(self.most_levels, plan.level)
        if plan.level == 1:
            self._paths = []
        for row, token in enumerate(plan.row_token.tolist()):
            parent = int(plan.row_parent[row])
            position = int(plan.row_position[row])
            start, before = self._paths[parent] if parent >= 0 else (position, ())
            self._paths.append((start, (*before, token)))
            self.guesses.append(_Guess(start, (*before, token), int(answers.ids[row, 0])))

    def right(self, texts: Sequence[list[int]]) -> tuple[int, int]:
        """Returns how many guesses behind what a text has were what follows there, and of how many.

        A guess is known by its position and its first token, which its text has: those that texts with other
        beginnings have there too are left out, as it may be none of the text that goes on as the guess does.
        """
        right = asked = 0
        for guess in self.guesses:
            end, first = guess.start + len(guess.path), guess.path[0]
            of = [text for text in texts if text[guess.start : guess.start + 1] == [first]]
            if len({tuple(text[: guess.start]) for text in of}) != 1:
                continue
            followed = {
                text[end]
                for text in of
                if len(text) > end and tuple(text[guess.start : end]) == guess.path
            }
            asked += bool(followed)
            right += guess.token in followed
        return right, asked
