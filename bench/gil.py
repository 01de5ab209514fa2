"""Time between two forwards beside a busy Python thread, with the steps called from Python and not.

The busy thread builds lists of small dicts, as one does that turns answers into messages. The model has
one thread, so that the other one has a core.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

from bench.support import machine, report
from bench.support.pairs import compare, shown_interval
from bench.support.prompt_ids import prompt_ids
from bench.support.prompts import load
from bench.support.rate import decode_rate

if TYPE_CHECKING:
    from spectrie import LLM
    from spectrie.model import Runner
    from spectrie.model.plan import PlanArrays, StepResult

__all__ = ["run"]

THREADS = 1
FLOOR_MS, GOAL_MS = 1.0, 0.2
"""For the median time between two forwards beside the busy thread."""
NEVER_SLOWER = 0.97
"""Floor for the rate of the native loop over that of the Python loop, without a busy thread."""


class Stopwatch:
    """Notes the gaps of steps that Python calls: where a forward ends, Python may not run.

    Args:
        runner: Its steps are timed from now on.
    """

    def __init__(self, runner: Runner) -> None:
        assert runner.native is not None
        self.gaps_ms: list[float] = []
        self._core = runner.native
        self._step = runner.step
        self._ended: float | None = None
        runner.step = self._timed  # type: ignore[method-assign]

    def _timed(self, plan: PlanArrays) -> StepResult:
        started, forwards = time.perf_counter(), self._core.forward_seconds
        if self._ended is not None:
            self.gaps_ms.append((started - self._ended) * 1e3)
        result = self._step(plan)
        self._ended = started + self._core.forward_seconds - forwards
        return result


@dataclass(slots=True)
class Probe:
    """A model whose answers are timed, and the gaps of the steps so far."""

    llm: LLM
    ids: list[int]
    max_tokens: int
    watch: Stopwatch | None
    """None for the native loop, which counts its gaps."""
    gaps_ms: list[float] = field(default_factory=list)

    def rate(self) -> float:
        """Tokens per second of one answer; notes its gaps."""
        host = self.llm._host
        before = host.steps
        per_second = decode_rate(self.llm, self.ids, self.max_tokens)
        # The first step follows no other one.
        count = host.steps - before - 1
        gaps = host.gaps_ms if self.watch is None else self.watch.gaps_ms
        self.gaps_ms += list(gaps)[-count:]
        return per_second

    def take_gaps(self) -> list[float]:
        """The gaps since the last call, ascending."""
        gaps, self.gaps_ms = sorted(self.gaps_ms), []
        return gaps


def run(model: str, *, pairs: int, max_tokens: int) -> None:
    """Compares both loops in turn, without and with a busy thread, and writes the report."""
    facts = machine.facts(threads=THREADS)
    data: dict[str, Any] = {}
    rows: list[list[str]] = []
    with _open(model, native=False) as python, _open(model, native=True) as native:
        ids = prompt_ids(native, load("chat")[0])
        watch = Stopwatch(python._host.runner)
        probes = [
            Probe(python, ids, max_tokens, watch),
            Probe(native, ids, max_tokens, None),
        ]
        facts["dtype"] = native.dtype
        for probe in probes:
            probe.rate()
            probe.take_gaps()
        for beside, thread in (("nothing", contextlib.nullcontext), ("a busy thread", _busy)):
            with thread():
                compared = compare(
                    [probes[0].rate], [probes[1].rate], pairs=pairs, title=f"beside {beside}"
                )
            summary = compared.summary()
            gaps = [_percentiles(probe.take_gaps()) for probe in probes]
            data[beside] = summary | {"python": gaps[0], "native": gaps[1]}
            rows += [
                _cells("Python", beside, gaps[0], summary["base_median"], ""),
                _cells("native", beside, gaps[1], summary["ours_median"], _ratio(summary)),
            ]
        data["verdict"] = _verdict(data["a busy thread"]["native"]["p50_ms"])
        data["quiet_verdict"] = _quiet_verdict(data["nothing"])
    header = ["steps", "beside", "gap p50", "gap p90", "gap p99", "tok/s", "ratio (95 %)"]
    notes = [
        f"One request decodes {max_tokens} tokens on {THREADS} thread, drafts off. The gap lies"
        " between the end of a forward and the start of the next. Both loops run in turn; the busy"
        f" thread is pure Python. Gap p50 beside it, native: {data['verdict']} (floor {FLOOR_MS:g},"
        f" goal {GOAL_MS:g} ms). Rate beside nothing, native over Python: {data['quiet_verdict']}"
        f" (floor {NEVER_SLOWER:g})."
    ]
    title = "Steps beside a busy Python thread"
    report.write("gil/gil", title, facts, header, rows, data, notes)


def _quiet_verdict(summary: dict[str, Any]) -> str:
    """Whether the native loop is as fast where nothing is beside it."""
    if summary["ratio_low"] >= NEVER_SLOWER:
        return "met"
    return "not met" if summary["ratio_high"] < NEVER_SLOWER else "not decided"


def _verdict(p50_ms: float) -> str:
    if p50_ms > FLOOR_MS:
        return "not met"
    return "goal met" if p50_ms <= GOAL_MS else "floor met"


def _open(model: str, *, native: bool) -> LLM:
    from spectrie import LLM
    from spectrie.model import Runner

    # The loop chooses when the model is loaded.
    choice = contextlib.nullcontext() if native else mock.patch.object(Runner, "native", None)
    with choice:
        return LLM(model, threads=THREADS, speculation=False)


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """A thread that never lets go of the GIL by itself."""
    stop = threading.Event()

    def build() -> None:
        while not stop.is_set():
            _ = [{"number": number, "pair": [number, number + 1]} for number in range(2000)]

    thread = threading.Thread(target=build, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _percentiles(gaps: list[float]) -> dict[str, float]:
    at = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
    numbers = {name: gaps[int(share * (len(gaps) - 1))] for name, share in at.items()}
    return numbers | {"mean_ms": statistics.mean(gaps), "count": len(gaps)}


def _cells(loop: str, beside: str, gaps: dict[str, float], rate: Any, ratio: str) -> list[str]:
    times = [f"{gaps[name]:.3f} ms" for name in ("p50_ms", "p90_ms", "p99_ms")]
    return [loop, beside, *times, f"{rate:.1f}", ratio]


def _ratio(summary: dict[str, Any]) -> str:
    low, high = summary["ratio_low"], summary["ratio_high"]
    return f"{summary['ratio']:.3f}x ({shown_interval(low, high, summary['ratio'], 3)})"
