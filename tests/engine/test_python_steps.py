"""Steps on a runner that launches: in which order the host launches, delivers, waits and commits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from spectrie.engine.python_steps import PythonSteps
from spectrie.model.plan import StepResult
from spectrie.model.step.wanted import Wanted

SHAPE = object()


class Script:
    """An engine and a runner of `steps` steps, whose calls are noted.

    Attributes:
        kind: Of the plans: `greedy`, `drawable` or neither.
        is_packed_drawn: Whether the packed steps say how tokens are drawn.
        fails_at: `launch` or `wait`, which then raises; with a number, only of that plan.
        starts_early: Whether the runner takes tokens that the step before draws.
        num_early: Plans that the engine lets begin early.
        followed_ms: What a drafter's level takes behind each step.
        waited_ms: What steps are said to have waited for such levels.
    """

    device_shape = SHAPE
    drafts = False

    def __init__(self, steps: int, kind: str = "greedy", fails_at: str = "") -> None:
        self.notes: list[str] = []
        self.kind = kind
        self.is_packed_drawn = True
        self.fails_at = fails_at
        self.starts_early = False
        self.num_early = 0
        self.followed_ms = 0.0
        self.waited_ms: list[float] = []
        self._left = steps
        self._plans = 0

    def plan(self, now_s: float, call: str = "plan") -> SimpleNamespace | None:
        if not self._left:
            return None
        self._left -= 1
        self._plans += 1
        self.notes.append(f"{call} {self._plans}")
        return SimpleNamespace(
            plan_id=self._plans,
            is_greedy=self.kind == "greedy",
            is_drawable=self.kind in ("greedy", "drawable"),
            logit_samples=np.zeros(0, np.int32),
        )

    def plan_early(self, now_s: float) -> SimpleNamespace | None:
        if not self.num_early:
            return None
        self.num_early -= 1
        return self.plan(now_s, "plan early")

    def pack(self, plan: Any, shape: object, *places: int) -> str:
        assert shape is SHAPE
        assert places == (1, 2, 3, 4)
        return f"packed {plan.plan_id}"

    def launch(
        self, plan: Any, wanted: Wanted, pack: Any, behind: Any, logit_samples: Any
    ) -> SimpleNamespace:
        assert pack(1, 2, 3, 4) == f"packed {plan.plan_id}"
        place = "" if behind is None else f" behind {behind.drawn}"
        self._note("launch", plan, wanted.value, place)
        has_tokens = wanted is not Wanted.LOGITS and self.is_packed_drawn

        def wait() -> StepResult:
            self._note("wait", plan)
            rows = 0 if has_tokens else 1
            tokens = np.array([plan.plan_id], np.int32) if has_tokens else None
            none = np.zeros((0, 8), np.int32), np.zeros((0, 8), np.float32)
            return StepResult(torch.zeros(rows, 4), *none, tokens)

        drawn = plan.plan_id if has_tokens else None
        return SimpleNamespace(wait=wait, drawn=drawn, followed_ms=self.followed_ms)

    def note_waited(self, waited_ms: float) -> None:
        self.waited_ms.append(round(waited_ms, 6))

    def commit_tokens(
        self, plan_id: int, *arguments: Any, drawn: bool, logits: Any, compacted: bool
    ) -> SimpleNamespace:
        assert logits is None and not compacted
        self.notes.append(f"commit {'drawn' if drawn else 'likeliest'} {plan_id}")
        return SimpleNamespace(handles=[plan_id])

    def commit_logits(self, plan_id: int, *arguments: Any) -> SimpleNamespace:
        self.notes.append(f"commit logits {plan_id}")
        return SimpleNamespace(handles=[plan_id])

    def fail(self, plan_id: int, message: str, now_s: float) -> SimpleNamespace:
        self.notes.append(f"fail {plan_id}")
        return SimpleNamespace(handles=[plan_id])

    def take_outputs(self) -> SimpleNamespace:
        return SimpleNamespace(handles=[])

    def deliver(self, output: Any) -> None:
        self.notes.append(f"deliver {output.handles[0]}")

    def _note(self, call: str, plan: Any, more: str = "", place: str = "") -> None:
        self.notes.append(" ".join(filter(None, (call, more, str(plan.plan_id)))) + place)
        if self.fails_at in (call, f"{call} {plan.plan_id}"):
            raise ValueError("broken")


def run(script: Any) -> list[str]:
    """What was called until there was no more work."""
    PythonSteps(script, script, script.deliver).run(0.0, rested=True)
    notes: list[str] = script.notes
    return notes


def test_the_last_output_is_delivered_while_the_device_works() -> None:
    assert run(Script(2)) == [
        "plan 1",
        "launch likeliest 1",
        "wait 1",
        "commit likeliest 1",
        "plan 2",
        "launch likeliest 2",
        "deliver 1",
        "wait 2",
        "commit likeliest 2",
        "deliver 2",
    ]


def early(steps: int, num_early: int, **options: Any) -> Script:
    script = Script(steps, **options)
    script.starts_early, script.num_early = True, num_early
    return script


def test_a_step_that_needs_no_results_is_launched_behind_the_one_that_draws_its_tokens() -> None:
    assert run(early(3, 2)) == [
        "plan 1",
        "launch likeliest 1",
        "plan early 2",
        "launch likeliest 2 behind 1",
        "wait 1",
        "commit likeliest 1",
        "plan early 3",
        "launch likeliest 3 behind 2",
        # Reading, drafting and learning of others go on while the device has two steps to do.
        "deliver 1",
        "wait 2",
        "commit likeliest 2",
        "deliver 2",
        "wait 3",
        "commit likeliest 3",
        "deliver 3",
    ]


@pytest.mark.parametrize("kind", ["other", "drawable"])
def test_no_step_begins_early_behind_one_whose_tokens_are_not_on_the_device(kind: str) -> None:
    script = early(2, 1, kind=kind)
    script.is_packed_drawn = False
    assert not any("early" in note for note in run(script))


def test_no_step_begins_early_where_the_runner_or_a_test_says_so() -> None:
    script = early(2, 1)
    script.starts_early = False
    assert not any("early" in note for note in run(script))
    script = early(2, 1)
    steps = PythonSteps(script, script, script.deliver, starts_early=False)  # type: ignore[arg-type]
    steps.run(0.0, rested=True)
    assert not any("early" in note for note in script.notes)


def test_an_early_step_is_waited_for_and_not_committed_if_the_one_before_it_fails() -> None:
    script = early(2, 1, fails_at="wait 1")
    assert run(script)[4:] == ["wait 1", "wait 2", "fail 1", "deliver 1"]


@pytest.mark.parametrize("fails_at", ["launch 2", "wait 2"])
def test_an_early_step_that_fails_ends_after_the_one_before_it(fails_at: str) -> None:
    notes = run(early(2, 1, fails_at=fails_at))
    assert [note for note in notes if note.startswith(("commit", "fail", "deliver"))] == [
        "commit likeliest 1",
        "deliver 1",
        "fail 2",
        "deliver 2",
    ]


def test_a_loop_that_is_stopped_commits_what_has_begun_early_and_begins_no_more() -> None:
    script = early(9, 8)
    steps = PythonSteps(script, script, script.deliver)  # type: ignore[arg-type]
    commit = script.commit_tokens

    def stop(*arguments: Any, **options: Any) -> SimpleNamespace:
        steps.stop()
        return commit(*arguments, **options)

    script.commit_tokens = stop  # type: ignore[method-assign]
    steps.run(0.0, rested=True)
    steps.close()
    assert script.notes[-2:] == ["commit likeliest 2", "deliver 2"]
    assert not any("3" in note for note in script.notes)


@pytest.mark.parametrize(
    ("kind", "wanted", "committed"),
    [
        ("greedy", "likeliest", "likeliest"),
        ("drawable", "drawn", "drawn"),
        ("other", "logits", "logits"),
    ],
)
def test_a_plan_gets_what_its_requests_need(kind: str, wanted: str, committed: str) -> None:
    notes = run(Script(1, kind))
    assert f"launch {wanted} 1" in notes
    assert f"commit {committed} 1" in notes


def test_a_drawable_plan_whose_packed_step_says_nothing_of_draws_commits_logits() -> None:
    script = Script(1, "drawable")
    script.is_packed_drawn = False
    assert "commit logits 1" in run(script)


@pytest.mark.parametrize("fails_at", ["launch", "wait"])
def test_a_step_that_fails_ends_its_requests_alone_and_after_what_came_before(
    fails_at: str,
) -> None:
    script = Script(1)
    steps = PythonSteps(script, script, script.deliver)  # type: ignore[arg-type]
    steps.run(0.0, rested=True)
    script.fails_at = fails_at
    script._left = 1
    del script.notes[:]
    # An output that waits when the next step fails.
    steps._output = SimpleNamespace(handles=[9])  # type: ignore[assignment]
    steps.run(0.0, rested=True)
    notes = script.notes
    assert notes.index("deliver 9") < notes.index("fail 2") < notes.index("deliver 2")
    assert not any(note.startswith("commit") for note in notes)


@pytest.mark.parametrize(
    ("followed_ms", "expected", "waited"),
    [
        # The device begins each step when it is launched, or where the level behind the one before is longer, then.
        (0.0, [10.0, 10.0, 10.0], []),
        (2.0, [10.0, 10.0, 10.0], []),
        (7.0, [10.0, 7.0, 7.0], [3.0, 3.0]),
        # The host saw the step before end long after the device did.
        (70.0, [10.0, 0.0, 0.0], [66.0, 66.0]),
    ],
)
def test_a_step_is_not_charged_for_the_level_behind_the_one_before(
    followed_ms: float, expected: list[float], waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("spectrie.engine.python_steps.time", clock)
    script = Script(3)
    script.followed_ms = followed_ms
    commit, note, plan = script.commit_tokens, script._note, script.plan
    elapsed = []

    def planned(now_s: float, call: str = "plan") -> SimpleNamespace | None:
        now[0] += 0.004
        return plan(now_s, call)

    def noted(call: str, *given: Any) -> None:
        now[0] += 0.010 * (call == "wait")
        note(call, *given)

    def committed(plan_id: int, tokens: Any, elapsed_ms: float, *given: Any, **options: Any) -> Any:
        elapsed.append(round(elapsed_ms, 6))
        return commit(plan_id, tokens, elapsed_ms, *given, **options)

    monkeypatch.setattr(script, "plan", planned)
    monkeypatch.setattr(script, "_note", noted)
    monkeypatch.setattr(script, "commit_tokens", committed)
    run(script)
    assert elapsed == expected
    assert script.waited_ms == waited
