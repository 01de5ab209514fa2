"""What one router core does: time added to tokens, steps that bring many, the ceiling, memory of streams.

Worker and clients are one program in Rust (`rust/router/examples/load`): in Python they would be slower than the router.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench.router.certificates import Authority
from bench.router.process import router
from bench.router.rows import Row, least, most
from bench.support import machine

__all__ = ["measure"]

STREAMS = (1, 64, 1000)
STEPS = (64, 512)
HELD = 2000
SECONDS = 4.0
PAIRS = 7
"""Of a flood in clear text and one with TLS: alone, each varies by more than what is between them."""
RATE = 6000
"""Tokens a second, one by one: a fifth of what one core is to take at least. The program's timers hold no pace
much above it."""


def measure(folder: Path) -> tuple[list[Row], dict[str, Any]]:
    """Rows of the table, and all that was measured.

    Args:
        folder: The model whose tokenizer the worker shows.
    """
    program = _build()
    with tempfile.TemporaryDirectory(prefix="spectrie-bench-") as directory:
        own = Path(directory)
        authority = Authority(own)
        issued = authority.issue("server")

        def load(kind: str, *, tls: bool = False, **options: float) -> dict[str, Any]:
            given = (f"--tls-cert={issued.cert}", f"--tls-key={issued.key}") if tls else ()
            with router(own, "--max-connections=16384", *given) as process:
                command = [str(program), kind, "--worker", f"unix:{own}/worker.sock"]
                command += ["--grpc", str(process.facts["grpc"]), "--model", str(folder)]
                command += ["--router", str(process.pid)]
                command += ["--ca", str(authority.cert)] if tls else []
                for name, value in options.items():
                    command += [f"--{name}", f"{value:g}"]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300)
            found: dict[str, Any] = json.loads(done.stdout)
            return found

        floods = [
            [load("flood", tls=tls, streams=64, seconds=SECONDS) for tls in (False, True)]
            for _ in range(PAIRS)
        ]
        paced = {n: load("paced", streams=n, rate=RATE, seconds=SECONDS) for n in STREAMS}
        steps = {n: load("steps", streams=n, seconds=SECONDS) for n in STEPS}
        held = load("held", streams=HELD)
    rows = []
    for num, one in paced.items():
        streams = f"{num:,} streams" if num > 1 else "one stream"
        what = f"worker to client, {streams}, {RATE:,} tokens/s"
        rows.append(most(f"{what}: p50", one["p50_us"], 150, 50, "us"))
        rows.append(most(f"{what}: p99", one["p99_us"] / 1e3, 1, 0.5, "ms"))
    for num, limits in zip(STEPS, ((3, 1.5), (20, 10)), strict=True):
        what = f"a step of {num} tokens, to the last one sent"
        rows.append(most(what, steps[num]["p50_ms"], *limits, "ms"))
    ceiling = median(clear["tokens"] / clear["seconds"] for clear, _ in floods)
    rows.append(least("tokens a second through one core", ceiling, 30_000, 60_000, ""))
    share = 100 * median(_per_core(coded) / _per_core(clear) for clear, coded in floods)
    what = f"the same with TLS, over it, by processor time: median of {PAIRS} pairs"
    rows.append(least(what, share, 80, 90, "%"))
    memory = held["memory_bytes"] / 1e6
    rows.append(most(f"memory of {HELD:,} streams on one channel", memory, 300, 120, "MB"))
    data = {"floods": floods, "paced": paced, "steps": steps, "held": held}
    return rows, data


def _per_core(flood: dict[str, Any]) -> float:
    """Tokens for each second of processor time that the router used."""
    return float(flood["tokens"] / flood["cpu_s"])


def _build() -> Path:
    command = ["cargo", "build", "--release", "--locked", "--quiet"]
    command += ["-p", "spectrie-router", "--example", "load"]
    subprocess.run(command, check=True, cwd=machine.ROOT)
    return machine.ROOT / "target" / "release" / "examples" / "load"
