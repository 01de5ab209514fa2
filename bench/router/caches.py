"""Prompt tokens that workers compute behind a router, over those of one worker with all their caches.

Fake workers keep a prefix cache (pages, least recently used go first) and count what they would have
to compute. The router is the real one and knows only what it sent where. Nothing here is timed: how
long an answer takes decides only which requests run beside each other.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from bench.router.messages import VOCABULARY, greeting
from bench.support import builds, machine, report
from spectrie._proto import worker_pb2, worker_pb2_grpc
from spectrie.client import AsyncClient

__all__ = ["PAGE", "Cache", "Trace", "computed", "run"]

PAGE = 16
WORKERS = 4
PLACES = 16
ROUNDS = 4
SEED = 20_260
"""Of the reported draws; the rules were chosen on others."""
RATIO, BUSIEST = (1.2, 1.08), (1.25, 1.1)
"""Floor and goal of the tokens computed, and of the busiest worker over the mean."""
_TOKEN_S, _ANSWER_S, _PAUSE_S = 20e-6, 0.1, 0.2


@dataclass(frozen=True)
class Trace:
    """Conversations: who has which system prompt, and how much each turn adds."""

    conversations: int = 64
    turns: int = 8
    turn_tokens: int = 320
    systems: int = 8
    system_tokens: int = 1600

    def prompt(self, conversation: int, turn: int) -> list[int]:
        """Token ids of a turn, from 1; a prompt goes on from the one before."""
        system = random.Random(f"system {conversation % self.systems}")
        own = random.Random(f"conversation {conversation}")
        ids = [system.randrange(3, VOCABULARY) for _ in range(self.system_tokens)]
        return ids + [own.randrange(3, VOCABULARY) for _ in range(turn * self.turn_tokens)]

    @property
    def tokens(self) -> int:
        """Tokens of all text, each once."""
        own = self.conversations * self.turns * self.turn_tokens
        return self.systems * self.system_tokens + own


class Cache:
    """A prefix cache of so many pages.

    Args:
        pages: How many it holds; the least recently used go first.
    """

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._held: OrderedDict[int, None] = OrderedDict()

    def compute(self, prompt: Sequence[int]) -> int:
        """How many tokens of a prompt have to be computed; its pages are held from now on."""
        names, name = [], 0
        for place in range(0, len(prompt) - PAGE + 1, PAGE):
            name = hash((name, *prompt[place : place + PAGE]))
            names.append(name)
        found = 0
        while found < len(names) and names[found] in self._held:
            found += 1
        # The beginning is used last: what goes first is the end of a prompt.
        for name in reversed(names):
            self._held[name] = None
            self._held.move_to_end(name)
        while len(self._held) > self._pages:
            self._held.popitem(last=False)
        return len(prompt) - found * PAGE


@dataclass
class Routed:
    """What came to the workers: prompts in their order, and tokens that each computed."""

    prompts: list[tuple[int, ...]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=lambda: [0] * WORKERS)
    requests: list[int] = field(default_factory=lambda: [0] * WORKERS)


def run(model: str) -> None:
    """Counts and writes `bench/results/serving/caches.*`."""
    from spectrie.model import resolve

    trace, folder = Trace(), resolve(model).folder
    pages = trace.tokens // 8 // PAGE
    rounds = []
    for number in range(ROUNDS):
        routed = asyncio.run(_play(trace, pages, folder, SEED + number))
        rounds.append(_compare(routed, pages))
    means = {key: statistics.mean(one[key] for one in rounds) for key in rounds[0]}
    header = ["", "prompt tokens computed", "busiest over mean, tokens", "requests", "floor, goal"]
    limits = f"{RATIO[0]:g}x, {RATIO[1]:g}x; {BUSIEST[0]:g}, {BUSIEST[1]:g}"
    rows = [
        ["through the router", f"{means['routed']:.2f}x", f"{means['busiest']:.2f}"],
        ["in turn", f"{means['in_turn']:.2f}x", f"{means['busiest_in_turn']:.2f}"],
    ]
    rows[0] += [f"{means['busiest_requests']:.2f}", limits]
    rows[1] += ["1.00", ""]
    notes = [
        f"Over one worker that has all {WORKERS} caches, mean of {ROUNDS} rounds:"
        f" {trace.conversations} conversations of {trace.turns} turns of {trace.turn_tokens} tokens,"
        f" {trace.systems} system prompts of {trace.system_tokens}, each cache an eighth of the text"
        " (LRU). Counted, not timed; in turn: the same requests in the same order."
    ]
    data = {"rounds": rounds, "means": means}
    title = "Prompt tokens computed behind a router"
    command = "python -m bench caches"
    report.write(
        "serving/caches", title, machine.facts(), header, rows, data, notes, command=command
    )


def computed(prompts: Sequence[Sequence[int]], caches: int, pages: int) -> list[int]:
    """Tokens that each of so many caches computes when prompts come to them in turn."""
    held = [Cache(pages) for _ in range(caches)]
    tokens = [0] * caches
    for number, prompt in enumerate(prompts):
        tokens[number % caches] += held[number % caches].compute(prompt)
    return tokens


def _compare(routed: Routed, pages: int) -> dict[str, float]:
    one = sum(computed(routed.prompts, 1, pages * WORKERS))
    in_turn = computed(routed.prompts, WORKERS, pages)
    return {
        "routed": sum(routed.tokens) / one,
        "in_turn": sum(in_turn) / one,
        "busiest": max(routed.tokens) / statistics.mean(routed.tokens),
        "busiest_in_turn": max(in_turn) / statistics.mean(in_turn),
        "busiest_requests": max(routed.requests) / statistics.mean(routed.requests),
    }


async def _play(trace: Trace, pages: int, folder: Path, seed: int) -> Routed:
    routed = Routed()
    with tempfile.TemporaryDirectory(prefix="spectrie-bench-") as directory:
        socket = f"unix:{directory}/worker.sock"
        arguments = ["router", "--http=off", "--grpc=127.0.0.1:0", f"--worker-listen={socket}"]
        starting = builds.running()([*arguments, "--log-level=warn"], lambda line: None)
        with starting as urls:
            workers = [
                asyncio.create_task(_work(socket, folder, number, pages, routed, seed))
                for number in range(WORKERS)
            ]
            try:
                async with AsyncClient(str(urls["grpc"]), timeout=120) as client:
                    while not any(one.workers == WORKERS for one in await client.list_models()):
                        await asyncio.sleep(0.05)
                    talks = (_talk(client, trace, one, seed) for one in range(trace.conversations))
                    await asyncio.gather(*talks)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
    return routed


async def _talk(client: AsyncClient, trace: Trace, conversation: int, seed: int) -> None:
    draws = random.Random(f"{seed} {conversation}")
    await asyncio.sleep(draws.uniform(0, 2 * _PAUSE_S))
    for turn in range(1, trace.turns + 1):
        ids = trace.prompt(conversation, turn)
        await client.generate(prompt_token_ids=ids, max_tokens=1, ignore_eos=True)
        await asyncio.sleep(draws.expovariate(1 / _PAUSE_S))


async def _work(
    socket: str, folder: Path, number: int, pages: int, routed: Routed, seed: int
) -> None:
    """One fake worker, until it is cancelled."""
    outbox: asyncio.Queue[worker_pb2.WorkerMessage] = asyncio.Queue()
    cache, draws = Cache(pages), random.Random(f"{seed} worker {number}")

    async def messages() -> AsyncIterator[worker_pb2.WorkerMessage]:
        capacity = worker_pb2.Capacity(
            max_context=8192, max_running=PLACES, num_pages=pages, page_size=PAGE
        )
        for message in greeting(folder, capacity):
            yield message
        while True:
            try:
                yield await asyncio.wait_for(outbox.get(), 1)
            except TimeoutError:
                yield worker_pb2.WorkerMessage(heartbeat=worker_pb2.Heartbeat())

    async def answer(start: worker_pb2.Start, tokens: int) -> None:
        await asyncio.sleep(tokens * _TOKEN_S + draws.expovariate(1 / _ANSWER_S))
        output = worker_pb2.RequestOutput(
            request_id=start.request_id,
            attempt=start.attempt,
            token_ids=[5],
            sources=[1],
            finish=worker_pb2.FINISH_LENGTH,
        )
        step = worker_pb2.StepOutput(outputs=[output])
        await outbox.put(worker_pb2.WorkerMessage(step_output=step))

    options = [("grpc.enable_http_proxy", 0), ("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(socket, options=options) as channel:
        stub = worker_pb2_grpc.WorkerHubStub(channel)
        running = set()
        async for message in stub.Connect(messages()):
            if not message.HasField("start"):
                continue
            prompt = tuple(message.start.prompt_ids)
            tokens = cache.compute(prompt)
            routed.prompts.append(prompt)
            routed.tokens[number] += tokens
            routed.requests[number] += 1
            task = asyncio.create_task(answer(message.start, tokens))
            running.add(task)
            task.add_done_callback(running.discard)
