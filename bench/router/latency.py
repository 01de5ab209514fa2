"""Time that the router adds to each token: one stream from a fake worker, with and without it.

Both ways begin and end in the same Python code: the fake worker stamps each token when it hands it
to gRPC, the client when it has it. What the router adds is the difference of the two medians.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from bench.support import builds, machine, report
from bench.support.pairs import median_interval, shown_interval
from spectrie.client import Client

__all__ = ["Ways", "run"]

FLOOR_US = 150.0
"""Limit for the median time that the router adds to a token."""
ROUNDS = 8
TOKENS = 250
_SKIPPED = 20


def run(model: str) -> None:
    """Measures and writes `bench/results/router.*`."""
    from spectrie.model import resolve

    latencies: dict[str, list[list[float]]] = {"direct": [], "routed": []}
    with Ways(resolve(model).folder) as ways:
        for number in range(ROUNDS):
            order = ("direct", "routed") if number % 2 == 0 else ("routed", "direct")
            for way in order:
                latencies[way].append(ways.latencies(way))
    facts = machine.facts()
    differences = [
        statistics.median(routed) - statistics.median(direct)
        for direct, routed in zip(latencies["direct"], latencies["routed"], strict=True)
    ]
    added = statistics.median(differences)
    low, high = median_interval(differences)
    routed = sorted(value for one in latencies["routed"] for value in one)
    direct = sorted(value for one in latencies["direct"] for value in one)
    verdict = "met" if low <= FLOOR_US else "not met"
    row = [
        f"{added:.0f} us",
        shown_interval(low, high, added, 0),
        _percentiles(direct),
        _percentiles(routed),
    ]
    header = ["added p50", "95 %", "direct p50/p90/p99 us", "routed p50/p90/p99 us", "floor"]
    data = {"added_us": added, "low_us": low, "high_us": high, "verdict": verdict}
    data |= {"floor_us": FLOOR_US, "rounds": ROUNDS, "tokens": TOKENS, "latencies_us": latencies}
    notes = [f"One stream, one token every 4 ms, {ROUNDS} streams of {TOKENS} tokens each way."]
    rows = [[*row, f"{FLOOR_US:.0f} us: {verdict}"]]
    report.write("router", "Time the router adds to a token", facts, header, rows, data, notes)


class Ways:
    """A fake worker, reached directly and through a router.

    Args:
        folder: The model whose tokenizer the worker shows.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Ways:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="spectrie-bench-"))
            socket = f"unix:{directory}/worker.sock"
            arguments = ["router", "--http=off", "--grpc=127.0.0.1:0", f"--worker-listen={socket}"]
            router = builds.running()([*arguments, "--log-level=warn"], lambda line: None)
            routed = str(stack.enter_context(router)["grpc"])
            self._stamps = stack.enter_context(_worker(socket, self._folder))
            direct = f"127.0.0.1:{self._stamps.readline().strip()}"
            self._clients = {
                way: stack.enter_context(Client(target, timeout=60))
                for way, target in (("direct", direct), ("routed", routed))
            }
            _wait_for_worker(self._clients["routed"])
            for way in self._clients:
                self.latencies(way)  # warm-up
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *reason: object) -> None:
        self._stack.close()

    def latencies(self, way: str) -> list[float]:
        """Microseconds from worker to client of each token of one stream, the first few left out."""
        return _latencies(self._clients[way], self._stamps)


@contextmanager
def _worker(socket: str, folder: Path) -> Iterator[IO[str]]:
    """What the fake worker prints."""
    command = [sys.executable, "-m", "bench.router.fake_worker", socket, str(folder)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=machine.ROOT)
    assert worker.stdout is not None
    try:
        yield worker.stdout
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()


def _wait_for_worker(client: Client) -> None:
    for _ in range(100):
        if client.list_models():
            return
        time.sleep(0.1)
    raise RuntimeError("the fake worker did not join the router")


def _latencies(client: Client, stamps: IO[str]) -> list[float]:
    arrivals: list[int] = []
    with client.stream(
        "one two three four five", max_tokens=TOKENS, ignore_eos=True, temperature=0.0
    ) as stream:
        for delta in stream:
            arrivals.extend([time.monotonic_ns()] * len(delta.token_ids))
    sent = json.loads(stamps.readline())
    if len(sent) != len(arrivals):
        raise RuntimeError(f"{len(sent)} tokens were sent and {len(arrivals)} came")
    pairs = zip(sent, arrivals, strict=True)
    return [(arrival - stamp) / 1000 for stamp, arrival in pairs][_SKIPPED:]


def _percentiles(values: list[float]) -> str:
    return "/".join(f"{values[int(len(values) * share)]:.0f}" for share in (0.5, 0.9, 0.99))
