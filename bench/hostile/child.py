"""One run with a model of its own: JSON of what the tenants that behave saw, on standard output."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.hostile.tenants import ANSWER_TOKENS, Asked, Hostile, Neighbours

if TYPE_CHECKING:
    from spectrie import LLM

KV_BYTES = 512 << 20
DRAFT_MEMORY_BYTES = 64 << 20
HOSTILE = 3
MOST_FILLS, FILLED = 16, 0.9


def main(options: dict[str, Any]) -> None:
    """Runs `tenants` tenants, of which three are hostile if `hostile` says so."""
    from spectrie import LLM

    with LLM(
        options["model"],
        threads=options["threads"],
        kv_memory_bytes=KV_BYTES,
        memory_bytes=DRAFT_MEMORY_BYTES,
    ) as llm:
        longest = llm.max_context - ANSWER_TOKENS
        _fill_pages(llm, longest)
        before = _resident_bytes()
        three = Hostile(llm, longest) if options["hostile"] else None
        # In the other run the three ask as the others do, and are not looked at either.
        count = options["tenants"] - HOSTILE
        neighbours = Neighbours(llm, options["tenants"] if three is None else count)
        beside = _nothing if three is None else three.keep_up
        asked = [
            one
            for tenant in neighbours.ask(options["rounds"], options["seconds"], beside)[:count]
            for one in tenant
        ]
        tokens = [list(one.stream.final().token_ids) for one in asked]
        load = llm.load()
        print(
            json.dumps(
                {
                    "tokens": tokens,
                    "first_ms": [1e3 * (one.came_s[0] - one.sent_s) for one in asked],
                    "between_ms": [gap for one in asked for gap in _gaps_ms(one)],
                    "draft_bytes": load.memory_bytes,
                    "resident_before": before,
                    "resident_after": _resident_bytes(),
                    "hostile_ended": 0 if three is None else three.ended,
                    "dtype": llm.dtype,
                }
            )
        )
        if three is not None:
            three.stop()


def _nothing() -> None:
    """Beside questions of tenants that behave."""


def _fill_pages(llm: LLM, longest: int) -> None:
    """Touches the whole key/value cache, so that it is in no growth."""
    for number in range(MOST_FILLS):
        load = llm.load()
        if load.pages_cached > FILLED * load.pages_total:
            return
        ids = [100 + (number * 7_907 + at * 37) % 20_000 for at in range(longest)]
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
    main(json.loads(sys.argv[1]))
