"""On a GPU that walks along its drawn tokens no plan orders moves, and answers stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import spectrie_kernels
from bench.gpu.fake_device import FakeDevice
from spectrie import _core
from spectrie.engine import python_steps
from spectrie.engine.python_steps import PythonSteps
from spectrie.model import Runner
from spectrie.model.plan import StepResult
from tests.engine.requests import request
from tests.tiny_model import EOS_ID, VOCABULARY_SIZE


class Watched(PythonSteps):
    """Steps that note what their plans order and draft, and what the device walked along."""

    moves = drafted = compacted = 0

    def _commit(self, step: python_steps._Step, result: StepResult) -> None:
        plan = step.plan
        self.moves += len(plan.kv_move_src)
        self.drafted += int((plan.request_row_count[plan.request_kind == 1] - 1).sum())
        self.compacted += result.compacted
        super()._commit(step, result)


class Ordering(Watched):
    """The same, where the engine has to order moves."""

    def _commit(self, step: python_steps._Step, result: StepResult) -> None:
        object.__setattr__(result, "compacted", False)
        super()._commit(step, result)


def run(
    gpu: tuple[Runner, FakeDevice], kind: type[Watched], temperature: float, speculation: str
) -> tuple[dict[int, list[int]], Watched]:
    """The tokens of each request."""
    runner, _ = gpu
    engine = _core.Engine(
        {
            "vocabulary_size": VOCABULARY_SIZE,
            "eos_token_ids": [EOS_ID],
            "num_pages": runner.num_pages,
            "max_context": 512,
            "max_running": 8,
            "speculation": speculation,
            "drafting_cost_ms": 0.001,
            "holdout_every": 0,
        }
    )
    engine.set_costs([1, 256], [1.0, 1.05])
    answers: dict[int, list[int]] = {}

    def deliver(output: _core.StepOutput) -> None:
        bounds, ids = output.token_indptr, output.token_ids
        for index, handle in enumerate(output.handles):
            answers.setdefault(handle, []).extend(ids[bounds[index] : bounds[index + 1]])

    source = np.random.default_rng(3)
    for handle in range(1, 7):
        # Texts that repeat themselves, in more than one way.
        text = source.integers(10, 14, size=40 + handle).tolist()
        engine.submit(request(handle, text, 60, temperature=temperature, seed=handle))
    steps = kind(engine, runner, deliver)
    steps.run(0.0, rested=True)
    steps.close()
    return answers, steps


@pytest.mark.parametrize("temperature", [0.0, 0.4])
def test_no_plan_orders_moves_where_the_device_walks(
    gpu: tuple[Runner, FakeDevice], temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, steps = run(gpu, Watched, temperature, "auto")
    assert (steps.moves, steps.drafted > 100, steps.compacted > 20) == (0, True, True)
    plain, _ = run(gpu, Watched, temperature, "off")
    # So that the line above says something: a device that does not walk leaves moves to the next step.
    monkeypatch.setattr(spectrie_kernels, "compact_slots", lambda *arguments: None)
    ordered, ordering = run(gpu, Ordering, temperature, "auto")
    assert ordering.moves > 0
    assert answers == plain == ordered
    # And one that only says so gives other answers.
    wrong, _ = run(gpu, Watched, temperature, "auto")
    assert wrong != plain
