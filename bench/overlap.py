"""Time between two forwards: the engine and its loop around a model that takes a fixed time.

The model repeats recorded answers, so that drafts come true as they did when the answers were
recorded. The time from the end of one forward to the start of the next is all ours.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from bench.draft.trace import TRACES, read
from bench.support import builds, machine, report
from spectrie import _core
from spectrie.model.plan import StepResult

__all__ = ["measure", "run"]

REQUESTS = 32
FORWARD_MS = 10.0
STEPS = 400
SKIPPED = 40
"""First steps, not counted: they compute prompts and memory grows."""
VOCABULARY = 49152
PAGES = 8192
MAX_CONTEXT = 4096
TASKS = ("edits", "chat", "code")
TARGET_US = 50.0
"""Target for the median time between forwards, drafting excluded."""


@dataclass(slots=True)
class Gap:
    """Microseconds between two forwards, by what they went into."""

    commit: float = 0.0
    drafting: float = 0.0
    planning: float = 0.0
    total: float = 0.0
    processor: float = 0.0

    @property
    def python(self) -> float:
        """What neither the engine's commit nor its plan took."""
        return self.total - self.commit - self.drafting - self.planning

    @property
    def own(self) -> float:
        """All but drafting."""
        return self.total - self.drafting


@dataclass(slots=True)
class Stopwatch:
    """Takes the engine's and the runner's calls as the loop makes them, and notes their times."""

    engine: Any
    runner: Any
    steps: int
    gaps: list[Gap] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    native: None = None
    """The calls of a native loop could not be timed."""
    device_shape: None = None
    starts_early: bool = False
    drafts: bool = False
    """As a model on one rank of a CPU: nothing is launched ahead, and no head drafts."""
    _gap: Gap = field(default_factory=Gap)
    _ended: float | None = None
    _ended_processor: float = 0.0
    _draft_seconds: float = 0.0

    def plan(self, *arguments: Any) -> Any:
        """Times the engine's plan, and the drafting in it."""
        started = time.perf_counter()
        plan = self.engine.plan(*arguments)
        took = (time.perf_counter() - started) * 1e6
        ended = time.thread_time()
        total = self.engine.load().draft_seconds
        self._gap.drafting = (total - self._draft_seconds) * 1e6
        self._draft_seconds = total
        self._gap.planning = took - self._gap.drafting
        # Reading the load is not part of the loop.
        if self._ended is not None:
            self._ended += time.perf_counter() - started - took / 1e6
            self._ended_processor += time.thread_time() - ended
        return plan

    def step(self, plan: _core.Plan) -> StepResult:
        """Runs the fake forward; the gap before it ends here."""
        if self._ended is not None:
            self._gap.total = (time.perf_counter() - self._ended) * 1e6
            self._gap.processor = (time.thread_time() - self._ended_processor) * 1e6
            self.gaps.append(self._gap)
            self.rows.append(len(plan.row_token))
            if len(self.gaps) == self.steps:
                self.done.set()
        self._gap = Gap()
        result: StepResult = self.runner.step(plan)
        self._ended = time.perf_counter()
        self._ended_processor = time.thread_time()
        return result

    def commit_logits(self, *arguments: Any) -> Any:
        """Times a commit."""
        return self._commit(self.engine.commit_logits, arguments)

    def commit_tokens(self, *arguments: Any, **options: Any) -> Any:
        """Times a commit."""
        return self._commit(partial(self.engine.commit_tokens, **options), arguments)

    def _commit(self, commit: Any, arguments: tuple[Any, ...]) -> Any:
        started = time.perf_counter()
        output = commit(*arguments)
        self._gap.commit = (time.perf_counter() - started) * 1e6
        return output

    def take_outputs(self, *arguments: Any) -> Any:
        """Ends without a step."""
        return self.engine.take_outputs(*arguments)

    def fail(self, *arguments: Any) -> Any:
        """A failed step: the bench is wrong."""
        self.done.set()
        return self.engine.fail(*arguments)


class Repeater:
    """A model that takes `FORWARD_MS` and goes on as the recorded answers do.

    A text is known by its first token: prompts begin with their number.
    """

    def __init__(self, texts: Sequence[Sequence[int]], *, gives_tokens: bool) -> None:
        self._texts = texts
        self._gives_tokens = gives_tokens
        self._owners: dict[int, int] = {}
        self._logits = torch.zeros(REQUESTS * 64, VOCABULARY)
        self._written: tuple[Any, Any] | None = None

    def step(self, plan: _core.Plan) -> StepResult:
        """The recorded next token after every row, whatever the row holds."""
        end = time.perf_counter() + FORWARD_MS / 1e3
        texts = []
        pages = plan.page_ids[plan.page_indptr[:-1]]
        firsts = plan.row_token[plan.request_row_start].tolist()
        for page, first, kv_len in zip(
            pages.tolist(), firsts, plan.request_kv_len.tolist(), strict=True
        ):
            if kv_len == 0:
                self._owners[page] = first
            texts.append(self._texts[self._owners[page]])
        owners, positions = plan.row_owner.tolist(), plan.row_position.tolist()

        def following(rows: Any) -> Any:
            pairs = ((texts[owners[row]], positions[row] + 1) for row in rows.tolist())
            return np.fromiter(
                (text[at] if at < len(text) else 1 for text, at in pairs), np.int32, len(rows)
            )

        answers = following(plan.sample_rows)
        if self._written is not None:
            self._logits[self._written] = 0.0
        self._written = (torch.arange(len(answers)), torch.from_numpy(answers).long())
        self._logits[self._written] = 20.0
        top = np.full((len(plan.top_rows), 8), -1, np.int32)
        top[:, 0] = following(plan.top_rows)
        result = StepResult(
            self._logits[: len(answers)],
            top,
            (top >= 0) * np.float32(0.9),
            answers if self._gives_tokens else None,
        )
        time.sleep(max(end - time.perf_counter(), 0.0))
        return result


def run() -> None:
    """Measures and writes `bench/results/gil/overlap.*`."""
    facts = machine.facts(requests=REQUESTS, forward_ms=FORWARD_MS)
    rows, data = [], {}
    variants: dict[str, dict[str, Any]] = {
        "drafts, overlap": {},
        "drafts, no overlap": {"overlap": False},
        "drafts, overlap, logits": {"gives_tokens": False},
        "no drafts, overlap": {"speculation": "off"},
    }
    for name, options in variants.items():
        print(f"  overlap: {name}", file=sys.stderr, flush=True)
        measured = measure(**options)
        data[name] = measured
        rows.append([name, *_cells(measured)])
    header = ["", "rows", "gap p50/p99 us", "of it processor", "commit", "plan", "python"]
    header += [
        "drafting",
        "all but drafting p10/p50/p99",
        f"target {TARGET_US:.0f} us",
        "of a step",
    ]
    notes = [
        f"{REQUESTS} requests decode answers of the recorded tasks {', '.join(TASKS)}; the model"
        f" sleeps {FORWARD_MS:g} ms a forward, vocabulary {VOCABULARY}. Medians in microseconds."
        " The forward gives the likeliest tokens, or (`logits`) the engine finds them."
    ]
    title, command = "Time between two forwards", "python -m bench overlap"
    report.write("gil/overlap", title, facts, header, rows, data, notes, command=command)


def measure(
    *,
    speculation: str = "auto",
    overlap: bool = True,
    gives_tokens: bool = True,
    steps: int = STEPS,
) -> dict[str, Any]:
    """Medians and other percentiles of each part of the gap, in microseconds.

    Args:
        speculation: Mode of the engine.
        overlap: Whether the engine's thread works beside the forwards.
        gives_tokens: Whether the forward gives the likeliest tokens itself.
        steps: Steps that are taken, the first `SKIPPED` of which do not count.
    """
    requests = [one for task in TASKS for one in read(TRACES / f"{task}.jsonl.xz")]
    texts: list[list[int]] = []
    engine = builds.engine(
        vocabulary_size=VOCABULARY,
        eos_token_ids=[],
        num_pages=PAGES,
        max_context=MAX_CONTEXT,
        max_running=REQUESTS,
        speculation=speculation,
        overlap=overlap,
    )
    engine.set_costs([1, 32, 64, 128, 512], [FORWARD_MS] * 4 + [2 * FORWARD_MS])

    def submit() -> None:
        number = len(texts)
        one = requests[number % len(requests)]
        prompt = [number, *one.prompt_ids][: MAX_CONTEXT // 2]
        output = list(one.output_ids)[: MAX_CONTEXT // 4]
        texts.append([*prompt, *output])
        engine.submit(builds.greedy_request(number, prompt, len(output)))

    def deliver(output: _core.StepOutput) -> None:
        for finish in output.finishes:
            if finish is not None and not watch.done.is_set():
                submit()

    watch = Stopwatch(engine, Repeater(texts, gives_tokens=gives_tokens), steps)
    prepared: Any = (watch, watch)
    loop = builds.step_loop()(lambda: prepared, deliver, lambda error: watch.done.set())
    for _ in range(REQUESTS):
        submit()
    loop.start()
    watch.done.wait()
    loop.stop()
    if len(watch.gaps) < steps:
        raise RuntimeError("the step loop ended early; see its log")
    return _summary(watch, engine)


def _summary(watch: Stopwatch, engine: _core.Engine) -> dict[str, Any]:
    gaps = watch.gaps[SKIPPED:]
    parts = {
        "gap": [gap.total for gap in gaps],
        "commit": [gap.commit for gap in gaps],
        "planning": [gap.planning for gap in gaps],
        "python": [gap.python for gap in gaps],
        "drafting": [gap.drafting for gap in gaps],
        "own": [gap.own for gap in gaps],
        "processor": [gap.processor for gap in gaps],
    }
    load = engine.load()
    return {
        "rows_median": statistics.median(watch.rows[SKIPPED:]),
        "steps": load.steps,
        "drafted_tokens": load.drafted_tokens,
        "accepted_tokens": load.accepted_tokens,
        **{f"{name}_us_p50": statistics.median(values) for name, values in parts.items()},
        **{f"{name}_us_p10": _percentile(values, 0.1) for name, values in parts.items()},
        **{f"{name}_us_p99": _percentile(values, 0.99) for name, values in parts.items()},
    }


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


def _cells(measured: dict[str, Any]) -> list[str]:
    own = measured["own_us_p50"]
    return [
        f"{measured['rows_median']:.0f}",
        f"{measured['gap_us_p50']:.0f}/{measured['gap_us_p99']:.0f}",
        f"{measured['processor_us_p50']:.0f}",
        *(f"{measured[f'{part}_us_p50']:.0f}" for part in ("commit", "planning", "python")),
        f"{measured['drafting_us_p50']:.0f}",
        f"{measured['own_us_p10']:.0f}/{own:.0f}/{measured['own_us_p99']:.0f}",
        "met" if own <= TARGET_US else "not met",
        f"{own / (FORWARD_MS * 1e3):.1%}",
    ]
