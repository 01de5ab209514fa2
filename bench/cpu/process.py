"""What a fresh process needs: seconds to be ready, and memory beside weights and cache."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.cpu.decode import weight_bytes
from bench.cpu.lines import Line

__all__ = ["process_lines"]

READY_S = 3.0
MEMORY_SHARE = 1.3
_STARTS = 4
_CHILD = Path(__file__).with_name("process_child.py")


def process_lines(folder: Path, dtype: str, *, threads: int) -> list[Line]:
    """Start-up with everything measured before, and memory after an answer of 256 tokens.

    Memory is what no file backs, less what torch took and the whole of the key/value cache.

    The first of several starts fills the cache of measurements and does not count.
    """
    starts = [_start(folder, dtype, threads) for _ in range(_STARTS)][1:]
    seconds = min(start["ready_s"] for start in starts)
    weights = weight_bytes(folder, dtype)
    used = min(start["bytes_used"] - start["bytes_of_cache"] for start in starts)
    torch_s = min(start["import_torch_s"] for start in starts)
    return [
        Line(
            f"start-up beyond import torch, {dtype}",
            f"import torch {torch_s:.1f} s",
            f"{seconds:.2f} s",
            seconds,
            None,
            READY_S,
            READY_S,
            at_most=True,
            unit=" s",
            data={"starts": starts},
        ),
        Line(
            f"memory without the KV cache, over weights, {dtype}",
            f"weights {weights / 1e6:.0f} MB",
            f"{used / 1e6:.0f} MB beyond torch and cache",
            used / weights,
            None,
            MEMORY_SHARE,
            MEMORY_SHARE,
            at_most=True,
        ),
    ]


def _start(folder: Path, dtype: str, threads: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(_CHILD), str(folder), dtype, str(threads)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts
