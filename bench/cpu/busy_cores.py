"""Plain decoding while other processes use the same cores."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.cpu.decode import race
from bench.cpu.lines import Line
from spectrie.model import machine

__all__ = ["busy_cores_line"]

PAIRS = 8
MAX_TOKENS = 16
PROMPTS = 4
FLOOR, GOAL = 1.0, 2.0
# Exits once its parent is gone.
_BUSY = "import os\nwhile os.getppid() == {parent}:\n    pass\n"


def busy_cores_line(folder: Path, dtype: str, *, threads: int) -> Line:
    """Ratio to transformers while a busy process competes for each core."""
    cores = machine.num_cores()
    found = race(
        folder,
        dtype,
        threads,
        PAIRS,
        MAX_TOKENS,
        num_prompts=PROMPTS,
        others=_busy_processes(cores),
    )
    what = f"plain decode beside {cores} busy processes, {dtype}"
    return found.line(what, "transformers", (FLOOR, GOAL))


@contextlib.contextmanager
def _busy_processes(count: int) -> Iterator[None]:
    command = [sys.executable, "-c", _BUSY.format(parent=os.getpid())]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
