"""A worker without a model that runs so many answers at once, and can die or stand still.

Run as `python -m bench.router.worker SOCKET FOLDER PLACES SECONDS SPREAD` it works in a process of its own.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import grpc

from bench.router.messages import greeting, said_again
from spectrie._proto import worker_pb2, worker_pb2_grpc

__all__ = ["Worker"]

_BEAT_S = 0.1


class Worker:
    """Says its prompts again, one token after another; tenants that wait get a place in turn.

    Args:
        socket: Where the router listens for workers.
        folder: The model whose tokenizer it shows.
        places: Answers that it runs at once.
        token_s: Time of each token.
        spread: Share of it by which that of an answer is longer or shorter at most, as answers differ in length.
    """

    def __init__(
        self, socket: str, folder: Path, *, places: int, token_s: float, spread: float = 0.0
    ) -> None:
        self._socket, self._folder = socket, folder
        self._places, self._token_s, self._spread = places, token_s, spread
        self._dice = random.Random(places)
        self._outbox: asyncio.Queue[worker_pb2.WorkerMessage] = asyncio.Queue()
        self._waiting: dict[str, deque[worker_pb2.Start]] = {}
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._steps = 0
        self._moving = asyncio.Event()
        self._moving.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *reason: object) -> None:
        self.die()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def num_running(self) -> int:
        """Answers that it runs."""
        return len(self._running)

    def die(self) -> None:
        """Ends without a word."""
        self._task.cancel()
        for one in self._running.values():
            one.cancel()

    def stall(self) -> None:
        """Makes no step from now on, and says still that it lives."""
        self._moving.clear()

    async def _work(self) -> None:
        options = [("grpc.enable_http_proxy", 0), ("grpc.default_authority", "localhost")]
        async with grpc.aio.insecure_channel(self._socket, options=options) as channel:
            stub = worker_pb2_grpc.WorkerHubStub(channel)
            async for message in stub.Connect(self._messages()):
                if message.HasField("start"):
                    start = message.start
                    self._waiting.setdefault(start.tenant, deque()).append(start)
                    self._fill()
                elif message.HasField("cancel"):
                    self._cancel(message.cancel)

    def _cancel(self, cancel: worker_pb2.Cancel) -> None:
        key = (cancel.request_id, cancel.attempt)
        task = self._running.pop(key, None)
        if task is not None:
            task.cancel()
            self._fill()
        for tenant, line in self._waiting.items():
            left = [one for one in line if (one.request_id, one.attempt) != key]
            self._waiting[tenant] = deque(left)

    def _fill(self) -> None:
        while len(self._running) < self._places:
            tenant = next((name for name, line in self._waiting.items() if line), None)
            if tenant is None:
                return
            line = self._waiting.pop(tenant)
            start = line.popleft()
            # Behind all others.
            self._waiting[tenant] = line
            key = (start.request_id, start.attempt)
            self._running[key] = asyncio.create_task(self._answer(start))

    async def _answer(self, start: worker_pb2.Start) -> None:
        token_s = self._token_s * (1 + self._dice.uniform(-self._spread, self._spread))
        for number in range(len(start.emitted_token_ids), start.max_tokens):
            await asyncio.sleep(token_s)
            await self._moving.wait()
            self._steps += 1
            step = worker_pb2.StepOutput(step=self._steps, outputs=[said_again(start, number)])
            self._outbox.put_nowait(worker_pb2.WorkerMessage(step_output=step))
        self._running.pop((start.request_id, start.attempt), None)
        self._fill()

    async def _messages(self) -> AsyncIterator[worker_pb2.WorkerMessage]:
        capacity = worker_pb2.Capacity(
            max_context=8192, max_running=self._places, num_pages=1 << 16, page_size=16
        )
        for message in greeting(self._folder, capacity, exact=True):
            yield message
        loop = asyncio.get_running_loop()
        beat_at = loop.time()
        while True:
            if loop.time() >= beat_at:
                beat_at = loop.time() + _BEAT_S
                beat = worker_pb2.Heartbeat(steps=self._steps, busy=bool(self._running))
                yield worker_pb2.WorkerMessage(heartbeat=beat)
            try:
                yield await asyncio.wait_for(self._outbox.get(), _BEAT_S)
            except TimeoutError:
                continue


async def _main(socket: str, folder: str, places: str, token_s: str, spread: str) -> None:
    async with Worker(
        socket, Path(folder), places=int(places), token_s=float(token_s), spread=float(spread)
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
