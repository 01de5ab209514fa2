"""Intent routing on the real model: short templated answers, a warm trie, one to four at a time."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from bench.draft.recording.tasks import ROUTED, Task, routing
from bench.support import machine, report
from spectrie.types import Completion, SpeculationOptions

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["run"]

CONCURRENCIES = (1, 2, 3, 4)
SEED_SPEEDUPS = {1: 2.61, 2: 2.21, 3: 1.92, 4: 1.81}
"""What the reference system reported on its own model and hardware, by concurrency."""
SEED_ACCEPTED_LENGTH = 4.8
WARMING = 128
"""Other requests of the same kind that the memory learns from first."""
_BLOCK = 32
"""Prompts between two changes from off to on, so that both see the same machine."""


def run(model: str, *, threads: int, dtype: str = "auto", prompts: int = ROUTED) -> None:
    """Measures routing at each concurrency and writes `bench/results/routing.*`."""
    from spectrie import LLM

    tasks = routing("report", ROUTED + WARMING)
    rows, data = [], {}
    with LLM(model, dtype=dtype, threads=threads) as llm:
        facts = machine.facts(threads=threads, dtype=llm.dtype)
        _answer(llm, tasks[ROUTED:], max(CONCURRENCIES), enabled=True, learn=True)
        for concurrency in CONCURRENCIES:
            one = _measure(llm, tasks[:prompts], concurrency)
            data[str(concurrency)] = one
            rows.append(_row(concurrency, one))
    header = ["at a time", "off tok/s", "on tok/s", "speed-up", "decode only", "reference"]
    header += ["accepted length", "reference", "identical"]
    notes = [
        f"{prompts} requests at each level, prefill included, greedy,"
        f" {facts['dtype']}, {threads} threads, after {WARMING} others of the same kind were learned;"
        " nothing is learned while measuring. Accepted length: tokens per forward after the prefill."
        " The reference published its figures for another model and hardware: for orientation only."
    ]
    report.write("routing", "Intent routing, warm memory", facts, header, rows, data, notes)


def _answer(
    llm: LLM, tasks: list[Task], concurrency: int, *, enabled: bool, learn: bool
) -> tuple[list[Completion], float]:
    """Every answer in the order of the tasks, and the seconds of all."""

    def one(task: Task) -> Completion:
        return llm.chat(
            [{"role": turn["role"], "content": turn["content"]} for turn in task.messages or ()],
            max_tokens=task.max_tokens,
            temperature=0.0,
            speculation=SpeculationOptions(enabled=enabled, learn=learn),
        )

    began = time.perf_counter()
    with ThreadPoolExecutor(concurrency) as pool:
        answers = list(pool.map(one, tasks))
    return answers, time.perf_counter() - began


def _measure(llm: LLM, tasks: list[Task], concurrency: int) -> dict[str, Any]:
    seconds = {False: 0.0, True: 0.0}
    answers: dict[bool, list[Completion]] = {False: [], True: []}
    for number, first in enumerate(range(0, len(tasks), _BLOCK)):
        block = tasks[first : first + _BLOCK]
        order = (False, True) if number % 2 == 0 else (True, False)
        for enabled in order:
            found, took = _answer(llm, block, concurrency, enabled=enabled, learn=False)
            answers[enabled] += found
            seconds[enabled] += took
        done = first + len(block)
        print(
            f"  routing {concurrency} at a time: {done}/{len(tasks)}", file=sys.stderr, flush=True
        )
    tokens = {one: sum(len(a.token_ids) for a in answers[one]) for one in answers}
    decode = {one: sum(a.timing.decode_ns for a in answers[one]) / 1e9 for one in answers}
    steps = sum(a.speculation.verify_steps for a in answers[True])
    accepted = sum(a.speculation.accepted_tokens for a in answers[True])
    rate = {one: tokens[one] / seconds[one] for one in answers}
    return {
        "off_tokens_per_second": rate[False],
        "on_tokens_per_second": rate[True],
        "speed_up": rate[True] / rate[False],
        "decode_speed_up": decode[False] / decode[True] if decode[True] else None,
        "accepted_length": 1 + accepted / max(steps, 1),
        "drafted_per_step": sum(a.speculation.drafted_tokens for a in answers[True])
        / max(steps, 1),
        "identical": sum(
            a.token_ids == b.token_ids for a, b in zip(answers[False], answers[True], strict=True)
        ),
        "prompts": len(tasks),
    }


def _row(concurrency: int, one: dict[str, Any]) -> list[str]:
    decode = one["decode_speed_up"]
    return [
        str(concurrency),
        f"{one['off_tokens_per_second']:.1f}",
        f"{one['on_tokens_per_second']:.1f}",
        f"{one['speed_up']:.2f}x",
        "" if decode is None else f"{decode:.2f}x",
        f"{SEED_SPEEDUPS[concurrency]:.2f}x",
        f"{one['accepted_length']:.2f}",
        f"{SEED_ACCEPTED_LENGTH:g}",
        f"{one['identical']}/{one['prompts']}",
    ]
