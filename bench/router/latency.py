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
from pathlib import Path
from typing import IO

from bench.support import machine, report
from bench.support.pairs import median_interval
from spectrie.client import Client
from spectrie.supervise.command import running

__all__ = ["run"]

FLOOR_US = 300.0
"""Most microseconds that the router may add to a token, at the median."""
ROUNDS = 8
TOKENS = 250
_SKIPPED = 20


def run(model: str) -> None:
    """Measures and writes `bench/results/router.*`."""
    from spectrie.model import resolve

    folder = resolve(model).folder
    with tempfile.TemporaryDirectory(prefix="spectrie-bench-") as directory:
        socket = f"unix:{directory}/worker.sock"
        arguments = ["router", "--http=off", "--grpc=127.0.0.1:0", f"--worker-listen={socket}"]
        with running([*arguments, "--log-level=warn"], lambda line: None) as ready:
            latencies = _measure(str(ready["grpc"]), socket, folder)
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
    row = [f"{added:.0f} us", f"{low:.0f}-{high:.0f}", _percentiles(direct), _percentiles(routed)]
    header = ["added p50", "95 %", "direct p50/p90/p99 us", "routed p50/p90/p99 us", "floor"]
    data = {"added_us": added, "low_us": low, "high_us": high, "verdict": verdict}
    data |= {"floor_us": FLOOR_US, "rounds": ROUNDS, "tokens": TOKENS, "latencies_us": latencies}
    notes = [f"One stream, one token every 4 ms, {ROUNDS} streams of {TOKENS} tokens each way."]
    rows = [[*row, f"{FLOOR_US:.0f} us: {verdict}"]]
    report.write("router", "Time the router adds to a token", facts, header, rows, data, notes)


def _measure(target: str, socket: str, folder: Path) -> dict[str, list[list[float]]]:
    command = [sys.executable, "-m", "bench.router.fake_worker", socket, str(folder)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=machine.ROOT)
    try:
        assert worker.stdout is not None
        port = worker.stdout.readline().strip()
        latencies: dict[str, list[list[float]]] = {"direct": [], "routed": []}
        with Client(target, timeout=60) as routed, Client(f"127.0.0.1:{port}") as direct:
            _wait_for_worker(routed)
            contenders = {"direct": direct, "routed": routed}
            for client in contenders.values():
                _latencies(client, worker.stdout)  # warm-up
            for number in range(ROUNDS):
                order = ("direct", "routed") if number % 2 == 0 else ("routed", "direct")
                for name in order:
                    latencies[name].append(_latencies(contenders[name], worker.stdout))
        return latencies
    finally:
        worker.kill()
        worker.wait()


def _wait_for_worker(client: Client) -> None:
    for _ in range(100):
        if client.list_models():
            return
        time.sleep(0.1)
    raise RuntimeError("the fake worker did not join the router")


def _latencies(client: Client, stamps: IO[str]) -> list[float]:
    """Microseconds from worker to client of each token of one stream, the first few left out."""
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
