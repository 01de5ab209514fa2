"""One run with a model of its own: JSON of what the tenants that behave saw, on standard output."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.hostile.tenants import (
    ANSWER_TOKENS,
    NAMES,
    PAUSE_S,
    Asked,
    Hostile,
    Neighbours,
    SlowReader,
    filling,
)

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["HOSTILE", "Options", "main"]

HOSTILE = len(NAMES)
MOST_FILLS, FILLED = 16, 0.9
FILL_NUMBER = 1_000_000
"""Of the first prompt that fills pages: none of the hostile tenant's."""
LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run.

    Attributes:
        model: Folder or name.
        threads: As everywhere.
        dtype: As everywhere.
        tenants: How many, the three among them.
        rounds: Questions of each.
        seconds: Over which all questions are asked.
        hostile: Whether three of them are hostile; else they ask as the others do.
        kv_bytes: Key/value cache.
        draft_bytes: Draft memory.
        drafting_cost_ms: As in `LLM`; None measures it.
        temperature: Of every second tenant's answers.
        slow_answers: Questions of one more tenant, which reads slowly.
        least_answered: Answers of each hostile tenant before the run may end.
        longest_wait_s: For them, after the last answer of the others.
    """

    model: str
    threads: int
    tenants: int
    rounds: int
    seconds: float
    hostile: bool = False
    kv_bytes: int = 512 << 20
    draft_bytes: int = 64 << 20
    dtype: str = "auto"
    drafting_cost_ms: float | None = None
    temperature: float = 0.0
    slow_answers: int = 0
    least_answered: int = 0
    longest_wait_s: float = 3_000.0


class Memory:
    """The most that the process had, looked at every now and then.

    Attributes:
        draft_bytes: The most draft memory.
        rest_bytes: The most resident memory without draft memory.
        rest_bytes_before: The same at the start.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self._due_s = 0.0
        self.draft_bytes = self.rest_bytes = 0
        self.look()
        self.rest_bytes_before = self.rest_bytes

    def look(self) -> None:
        """Looks, if it did not just do so."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_EVERY_S
        draft_bytes = self._llm.load().memory_bytes
        self.draft_bytes = max(self.draft_bytes, draft_bytes)
        self.rest_bytes = max(self.rest_bytes, _resident_bytes() - draft_bytes)


def main(options: Options) -> None:
    """Runs the tenants and prints what was seen."""
    from spectrie import LLM

    with LLM(
        options.model,
        threads=options.threads,
        dtype=options.dtype,
        kv_memory_bytes=options.kv_bytes,
        memory_bytes=options.draft_bytes,
        drafting_cost_ms=options.drafting_cost_ms,
    ) as llm:
        longest = llm.max_context - ANSWER_TOKENS
        _fill_pages(llm, longest)
        memory = Memory(llm)
        three = Hostile(llm, longest) if options.hostile else None

        def beside() -> None:
            memory.look()
            if three is not None:
                three.keep_up()

        tokens, asked = _run(llm, options, beside)
        answered = {} if three is None else dict(three.answered)
        waited_s = 0.0 if three is None else _wait(three, options, beside)
        load = llm.load()
        print(
            json.dumps(
                {
                    "tokens": tokens,
                    "first_ms": [1e3 * (one.came_s[0] - one.sent_s) for one in asked if one.came_s],
                    "between_ms": [gap for one in asked for gap in _gaps_ms(one)],
                    "kv_bytes": options.kv_bytes,
                    "draft_budget": options.draft_bytes,
                    "draft_bytes": memory.draft_bytes,
                    "rest_bytes_before": memory.rest_bytes_before,
                    "rest_bytes": memory.rest_bytes,
                    "answered_meanwhile": answered,
                    "answered": {} if three is None else three.answered,
                    "waited_s": waited_s,
                    "errors": [] if three is None else three.errors,
                    "prompt_tokens": load.prompt_tokens,
                    "accepted_tokens": load.accepted_tokens,
                    "dtype": llm.dtype,
                }
            )
        )
        if three is not None:
            three.stop()


def _wait(three: Hostile, options: Options, beside: Callable[[], None]) -> float:
    """Waits for answers of each hostile tenant, and gives the seconds; where requests fail, they may never come."""
    began_s = time.monotonic()
    while True:
        waited_s = time.monotonic() - began_s
        is_done = min(three.answered.values()) >= options.least_answered
        if is_done or three.errors or waited_s >= options.longest_wait_s:
            return waited_s
        beside()
        time.sleep(PAUSE_S)


def _run(
    llm: LLM, options: Options, beside: Callable[[], None]
) -> tuple[list[list[int]], list[Asked]]:
    """The tokens of each answer of those that behave, and what they asked."""
    # In the other run the three ask as the others do, and are not looked at either.
    count = options.tenants - HOSTILE
    asking = count if options.hostile else options.tenants
    slow = SlowReader(llm, options.slow_answers, options.temperature)
    neighbours = Neighbours(llm, asking, options.temperature)
    tenants = neighbours.ask(options.rounds, options.seconds, beside)[:count]
    asked = [one for tenant in tenants for one in tenant]
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(lambda: [list(one.stream.final().token_ids) for one in asked])
        while not read.done():
            beside()
            time.sleep(PAUSE_S)
    tokens = read.result()
    return tokens + slow.tokens(), asked


def _fill_pages(llm: LLM, longest: int) -> None:
    """Touches the whole key/value cache, so that it is in no growth."""
    for number in range(MOST_FILLS):
        load = llm.load()
        if load.pages_cached > FILLED * load.pages_total:
            return
        ids = filling(llm, longest, FILL_NUMBER + number)
        llm.generate(prompt_token_ids=ids, max_tokens=1, temperature=0.0, namespace="warm-up")


def _gaps_ms(asked: Asked) -> list[float]:
    came = asked.came_s
    return [1e3 * (later - earlier) for earlier, later in itertools.pairwise(came)]


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not say how much anonymous memory a process has")


if __name__ == "__main__":
    main(Options(**json.loads(sys.argv[1])))
