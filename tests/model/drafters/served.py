"""Notes all answers of a drafter by the text that they are answers to, and compares those to the same text."""

from __future__ import annotations

import numpy as np
import pytest

from spectrie import _core
from spectrie.model import Runner
from spectrie.model.drafters import Answers
from spectrie.model.plan import StepResult
from tests.model.drafters.session import PAGE

__all__ = ["Answered", "Served", "Text"]

Text = tuple[tuple[int, ...], tuple[int, ...]]
"""Committed tokens, and the guesses behind them."""

Answered = tuple[bytes, bytes, dict[int, bytes]]
"""Ids, probabilities, and log-probabilities of named tokens by token."""


class Served:
    """Notes the answers of every runner from now on; steps are to be called from Python.

    Attributes:
        answers: By text; of several answers to the same text the first.
        num_again: Texts that were answered again.
        differing: Texts that were answered with other bytes; must stay empty.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answers: dict[Text, Answered] = {}
        self.num_again = 0
        self.differing: list[Text] = []
        self._tokens: dict[int, int] = {}
        self._paths: list[tuple[int, ...]] = []
        step, draft = Runner.step, Runner.draft

        def noting_step(runner: Runner, plan: _core.Plan) -> StepResult:
            self._move(plan)
            for slot, token in zip(plan.row_slot.tolist(), plan.row_token.tolist(), strict=True):
                self._tokens[slot] = token
            return step(runner, plan)

        def noting_draft(runner: Runner, plan: _core.DraftPlan) -> Answers:
            self._move(plan)
            answers = draft(runner, plan)
            self._note(plan, answers)
            return answers

        patch.setattr(Runner, "step", noting_step)
        patch.setattr(Runner, "draft", noting_draft)

    def begin(self) -> None:
        """Forgets what slots hold: the next runner's hold nothing."""
        self._tokens.clear()

    def _move(self, plan: _core.Plan | _core.DraftPlan) -> None:
        for source, target in zip(
            plan.kv_move_src.tolist(), plan.kv_move_dst.tolist(), strict=True
        ):
            self._tokens[target] = self._tokens[source]

    def _committed(self, plan: _core.DraftPlan, request: int) -> tuple[int, ...]:
        pages = plan.page_ids[plan.page_indptr[request] : plan.page_indptr[request + 1]].tolist()
        count = int(plan.request_kv_len[request])
        slots = (pages[index // PAGE] * PAGE + index % PAGE for index in range(count))
        return tuple(self._tokens[slot] for slot in slots)

    def _note(self, plan: _core.DraftPlan, answers: Answers) -> None:
        if plan.level == 1:
            self._paths = []
        committed = [self._committed(plan, index) for index in range(len(plan.request_kv_len))]
        for row, token in enumerate(plan.row_token.tolist()):
            parent = int(plan.row_parent[row])
            path = (*(self._paths[parent] if parent >= 0 else ()), token)
            self._paths.append(path)
            named = slice(int(plan.scored_indptr[row]), int(plan.scored_indptr[row + 1]))
            scored = {
                name: np.float32(log).tobytes()
                for name, log in zip(
                    plan.scored_token[named].tolist(), answers.scored[named], strict=True
                )
            }
            given = answers.ids[row].tobytes(), answers.probabilities[row].tobytes(), scored
            self._compare((committed[int(plan.row_request[row])], path), given)

    def _compare(self, text: Text, given: Answered) -> None:
        first = self.answers.setdefault(text, given)
        if first is given:
            return
        self.num_again += 1
        common = given[2].keys() & first[2].keys()
        same = given[:2] == first[:2] and all(given[2][name] == first[2][name] for name in common)
        if not same:
            self.differing.append(text)
        first[2].update(given[2])
