"""More requests than a worker can take: what is answered in time, and what a tenant notices of another."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench.router.process import Process, router
from bench.router.rows import Row, least, most
from bench.support import machine
from spectrie.client import AsyncClient
from spectrie.errors import SpectrieError

__all__ = ["measure"]

TOKENS = 2
SMALL = (4, 0.1, 0.0)
"""Places, seconds a token, and their spread, of the worker that is asked for too much."""
LARGE = (64, 0.5, 0.5)
"""The same of one in which a place is free every few milliseconds, however many wait: without a spread all that
began together would end together, and leave none for a second."""
CAPACITY = SMALL[0] / (TOKENS * SMALL[1])
"""Answers a second that the small one can give."""
TIMES = 10
IN_TIME_S = 2.0
"""An answer that comes later is none."""
SECONDS, QUIET_SECONDS = 10.0, 30.0
HOSTILE_AT_ONCE, QUIET_AT_ONCE = 400, 8
"""The hostile one's are more than may wait: it asks again as soon as it is refused."""
_KEYS = "quiet quiet\nhostile hostile\n"


def measure(folder: Path) -> tuple[list[Row], dict[str, Any]]:
    """Rows of the table, and all that was measured.

    Args:
        folder: The model whose tokenizer the worker shows.
    """
    peak, goodput = asyncio.run(_overload(folder))
    alone = asyncio.run(_quiet(folder, is_disturbed=False))
    beside = asyncio.run(_quiet(folder, is_disturbed=True))
    ratio = _p99(beside["seconds"]) / _p99(alone["seconds"])
    rows = [
        least(
            f"goodput at {TIMES} times the load, over the peak", 100 * goodput / peak, 90, 97, "%"
        ),
        most("beside a hostile tenant: another's refusals", beside["refused"], 0, 0, ""),
        most("beside a hostile tenant: another's p99, over alone", ratio, 1.3, 1.1, "x"),
    ]
    data = {"peak": peak, "goodput": goodput, "alone": alone, "beside": beside}
    return rows, data


async def _overload(folder: Path) -> tuple[float, float]:
    """Answers in time a second: as many as can be had, and of ten times as many requests."""
    async with AsyncExitStack() as stack:
        _, client = await _served(stack, folder, SMALL)
        peak = await _closed(client, 2 * SMALL[0], SECONDS)
        done: list[float] = []

        async def ask() -> None:
            answered = await _answer(client)
            if answered is not None and answered <= IN_TIME_S:
                done.append(time.monotonic())

        begun = time.monotonic()
        asked = []
        for number in range(int(CAPACITY * TIMES * SECONDS)):
            await asyncio.sleep(begun + number / (CAPACITY * TIMES) - time.monotonic())
            asked.append(asyncio.create_task(ask()))
        ended = time.monotonic()
        await asyncio.gather(*asked)
        # The first second fills the queue, and after the last request it empties.
        counted = [at for at in done if begun + 1.0 <= at < ended]
        return peak, len(counted) / (ended - begun - 1.0)


async def _closed(client: AsyncClient, at_once: int, seconds: float) -> float:
    until = time.monotonic() + seconds
    counts = await asyncio.gather(*(_repeat(client, until) for _ in range(at_once)))
    return sum(map(len, counts)) / seconds


async def _repeat(client: AsyncClient, until: float) -> list[float]:
    took = []
    while time.monotonic() < until:
        answered = await _answer(client)
        if answered is not None:
            took.append(answered)
    return took


async def _answer(client: AsyncClient) -> float | None:
    """Seconds that an answer took; none if it was refused."""
    begun = time.monotonic()
    try:
        await client.generate("one two", max_tokens=TOKENS, ignore_eos=True, timeout=30)
    except SpectrieError:
        return None
    return time.monotonic() - begun


async def _quiet(folder: Path, *, is_disturbed: bool) -> dict[str, Any]:
    """What a tenant with a few requests at once hears, beside a hostile one or alone."""
    async with AsyncExitStack() as stack:
        process, client = await _served(stack, folder, LARGE, keys=_KEYS)
        if is_disturbed:
            grpc = str(process.facts["grpc"])
            command = ["nice", "-n", "19", sys.executable, "-m", "bench.router.crowds", grpc]
            hostile = subprocess.Popen(command, cwd=machine.ROOT, stdout=subprocess.DEVNULL)
            stack.callback(hostile.wait)
            stack.callback(hostile.kill)
            await asyncio.sleep(3.0)
        until = time.monotonic() + QUIET_SECONDS
        took: list[float] = []
        refused = 0

        async def ask() -> None:
            nonlocal refused
            while time.monotonic() < until:
                answered = await _answer(client)
                if answered is None:
                    refused += 1
                else:
                    took.append(answered)

        await asyncio.gather(*(ask() for _ in range(QUIET_AT_ONCE)))
        return {"seconds": took, "refused": refused}


async def _served(
    stack: AsyncExitStack, folder: Path, worker_of: tuple[int, float, float], *, keys: str = ""
) -> tuple[Process, AsyncClient]:
    own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spectrie-bench-")))
    (own / "keys").write_text(keys)
    given = [f"--api-keys={own / 'keys'}"] if keys else []
    process = stack.enter_context(router(own, *given))
    command = [sys.executable, "-m", "bench.router.worker", f"unix:{own}/worker.sock", str(folder)]
    worker = subprocess.Popen([*command, *map(str, worker_of)], cwd=machine.ROOT)
    stack.callback(worker.wait)
    stack.callback(worker.kill)
    key = "quiet" if keys else None
    client = AsyncClient(str(process.facts["grpc"]), api_key=key, max_retries=0)
    await stack.enter_async_context(client)
    while not any(one.workers for one in await client.list_models()):
        await asyncio.sleep(0.02)
    return process, client


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


async def _be_hostile(grpc: str) -> None:
    async with AsyncClient(grpc, api_key="hostile", max_retries=0) as client:
        await asyncio.gather(*(_repeat(client, float("inf")) for _ in range(HOSTILE_AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(_be_hostile(sys.argv[1]))
