"""How long streams pause when their worker dies or stands still, or their router dies."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.router.process import Process, router
from bench.router.rows import Row, most
from bench.router.worker import Worker
from spectrie.client import AdminClient, AsyncClient, Client

__all__ = ["measure"]

ROUNDS = 3
STREAMS = 8
TOKEN_S = 0.005
STALL_S = 2.0
FIRST_RESTART_S = 0.5
"""Pause of `serve` before it restarts a worker for the first time."""
_BEFORE_S = 1.0
_FEW = 16
"""Tokens after which the only worker is killed."""


def measure(folder: Path, model: str) -> tuple[list[Row], dict[str, Any], list[str]]:
    """Rows of the table, all that was measured, and what could not be.

    Args:
        folder: The model whose tokenizer fake workers show.
        model: A real one.
    """
    deaths = [asyncio.run(_worker_goes(folder, Worker.die)) for _ in range(ROUNDS)]
    stalls = [asyncio.run(_worker_goes(folder, Worker.stall)) for _ in range(ROUNDS)]
    cold, alone = _only_worker(model)
    rows = [
        most("pause after a worker's death, another ready: longest", max(deaths), 2, 0.5, "s"),
        most(
            f"the same after a stall, beyond the {STALL_S:g} s of its timeout",
            max(stalls) - STALL_S,
            2,
            0.5,
            "s",
        ),
        most(
            "pause when the only worker of `serve` dies, less the first restart pause, over a cold start",
            (statistics.median(alone) - FIRST_RESTART_S) / statistics.median(cold),
            1.3,
            1.1,
            "x",
        ),
    ]
    data: dict[str, Any] = {
        "deaths_s": deaths,
        "stalls_s": stalls,
        "cold_s": cold,
        "alone_s": alone,
    }
    if shutil.which("redis-server") is None:
        return rows, data, ["Without redis-server nothing was resumed on another router."]
    for name, what, numbers in (
        ("killed_s", "is killed", (signal.SIGKILL,)),
        ("ended_s", "is told to end at once", (signal.SIGTERM, signal.SIGTERM)),
    ):
        data[name] = [asyncio.run(_router_goes(folder, numbers)) for _ in range(ROUNDS)]
        title = f"a stream goes on at another router when its own {what}: longest"
        rows.append(most(title, max(data[name]), 1, 0.2, "s"))
    return rows, data, []


class _Readers:
    """Streams that are read, and when each token came."""

    def __init__(self, client: AsyncClient) -> None:
        self.come: list[list[float]] = [[] for _ in range(STREAMS)]
        self._tasks = [asyncio.create_task(self._read(client, number)) for number in range(STREAMS)]

    async def _read(self, client: AsyncClient, number: int) -> None:
        options: Any = {"max_tokens": 4000, "ignore_eos": True, "timeout": 120}
        async for delta in client.stream("one two three", **options):
            self.come[number].extend([time.monotonic()] * len(delta.token_ids))

    async def wait_all(self, since: float) -> None:
        """Waits until each has a token that came after `since`."""
        while not all(come and come[-1] > since for come in self.come):
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.002)

    def pause(self) -> float:
        """The longest time that one of them waited for a token."""
        gaps = [b - a for come in self.come for a, b in pairwise(come)]
        return max(gaps)

    async def end(self) -> None:
        """Cuts them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _disturbed(client: AsyncClient, disturb: Callable[[], Awaitable[None]]) -> float:
    readers = _Readers(client)
    try:
        await readers.wait_all(0.0)
        await asyncio.sleep(_BEFORE_S)
        await disturb()
        await readers.wait_all(time.monotonic() + 2 * TOKEN_S)
        # One that was not at it may have come on at once: all have when the longest is over.
        await asyncio.sleep(STALL_S + 2.0)
        return readers.pause()
    finally:
        await readers.end()


async def _worker_goes(folder: Path, goes: Callable[[Worker], None]) -> float:
    async with AsyncExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spectrie-bench-")))
        timeout = f"--worker-stall-timeout={STALL_S:g}s"
        process = stack.enter_context(router(own, timeout))
        socket = f"unix:{own}/worker.sock"
        workers = [
            await stack.enter_async_context(
                Worker(socket, folder, places=2 * STREAMS, token_s=TOKEN_S)
            )
            for _ in range(2)
        ]
        client = await stack.enter_async_context(AsyncClient(str(process.facts["grpc"])))
        await _joined(client, 2)

        async def disturb() -> None:
            goes(max(workers, key=lambda worker: worker.num_running))

        return await _disturbed(client, disturb)


async def _router_goes(folder: Path, numbers: tuple[signal.Signals, ...]) -> float:
    async with AsyncExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spectrie-bench-")))
        redis = f"--redis={stack.enter_context(_redis(own))}"
        targets = []
        processes = []
        for name in ("a", "b"):
            (own / name).mkdir()
            process = stack.enter_context(router(own / name, redis))
            socket = f"unix:{own / name}/worker.sock"
            worker = Worker(socket, folder, places=2 * STREAMS, token_s=TOKEN_S)
            await stack.enter_async_context(worker)
            targets.append(str(process.facts["grpc"]))
            processes.append(process)
            async with AsyncClient(targets[-1]) as client:
                await _joined(client, 1)
        client = await stack.enter_async_context(AsyncClient(targets, max_retries=8))

        async def disturb() -> None:
            for number in numbers:
                processes[0].send(number)

        return await _disturbed(client, disturb)


def _only_worker(model: str) -> tuple[list[float], list[float]]:
    """Seconds from a worker's start to its being ready, and pauses of a stream when it is killed."""
    cold, pauses = [], []
    flags = [
        "--http=off",
        "--grpc=127.0.0.1:0",
        "--workers=1",
        "--bigrams=off",
        "--log-level=error",
    ]
    for _ in range(ROUNDS):
        with (
            Process("serve", model, *flags) as process,
            AdminClient(str(process.facts["admin"])) as admin,
            Client(str(process.facts["grpc"]), max_retries=0, timeout=120) as client,
        ):
            while not (loads := admin.loads()):
                time.sleep(0.005)
            pid = loads[0].process_id
            cold.append(time.clock_gettime(time.CLOCK_BOOTTIME) - _started_s(pid))
            come: list[float] = []
            for delta in client.stream("Once upon a time", max_tokens=64, ignore_eos=True):
                is_first = len(come) < _FEW <= len(come) + len(delta.token_ids)
                come.extend([time.monotonic()] * len(delta.token_ids))
                if is_first:
                    os.kill(pid, signal.SIGKILL)
            pauses.append(max(b - a for a, b in pairwise(come)))
    return cold, pauses


def _started_s(pid: int) -> float:
    """When a process started, in seconds since the machine did."""
    behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    return int(behind_name.split()[19]) / os.sysconf("SC_CLK_TCK")


async def _joined(client: AsyncClient, count: int) -> None:
    while sum(one.workers for one in await client.list_models()) < count:
        await asyncio.sleep(0.02)


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    """A Redis without persistence, on a private socket."""
    socket = folder / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
    command += ["--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            time.sleep(0.02)
        yield f"unix:{socket}"
    finally:
        process.kill()
        process.wait()
