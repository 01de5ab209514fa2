"""Starts the product's own processes and reads their ready lines; every wait is bounded."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, Self

from spectrie.supervise.ready_line import read_ready

__all__ = ["Program", "gone", "serve"]

ROOT = Path(__file__).resolve().parents[2]
READY_S = 180.0
END_S = 60.0
CACHE = tempfile.TemporaryDirectory(prefix="spectrie-tests-")
"""What the processes measure and compute of tiny models, instead of the user's own cache."""


class Program:
    """A running `spectrie` command.

    Args:
        arguments: What follows `spectrie` on the command line.
        python: Folder of the package.
        module: What stands for `spectrie`.
    """

    def __init__(
        self, *arguments: str, python: Path = ROOT / "python", module: str = "spectrie"
    ) -> None:
        self._ready: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._lines: list[str] = []
        path = os.pathsep.join([str(python), str(ROOT / "kernels"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": path, "SPECTRIE_CACHE": CACHE.name},
        )
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.rstrip("\n"))
                facts = read_ready(line)
                if facts is not None:
                    self._ready.put(facts)
        self._ready.put(None)

    @property
    def output(self) -> str:
        """Everything it wrote so far, stdout and stderr."""
        return "\n".join(self._lines)

    def wait_ready(self) -> dict[str, Any]:
        """The facts of its ready line."""
        facts = self._ready.get(timeout=READY_S)
        assert facts is not None, f"ended before it was ready:\n{self.output}"
        return facts

    def wait_line(self, text: str) -> str:
        """The first line with `text`, once it is there."""
        deadline = time.monotonic() + END_S
        while time.monotonic() < deadline:
            for line in list(self._lines):
                if text in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"no line with {text!r} in:\n{self.output}")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Waits for its end; the exit code."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end:\n{self.output}") from None
        for reader in self._readers:
            reader.join(5.0)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Its children end with it: they watch a pipe that it holds.
        self.process.kill()
        self.process.wait(END_S)
        for reader in self._readers:
            reader.join(5.0)


def serve(model: Path, *arguments: str, python: Path = ROOT / "python") -> Program:
    """`spectrie serve` of a tiny model on free ports, small enough to run beside other tests.

    Args:
        model: The model.
        arguments: Further flags.
        python: Folder of the package.
    """
    return Program(
        "serve",
        str(model),
        "--http=127.0.0.1:0",
        "--grpc=127.0.0.1:0",
        "--dtype=float32",
        "--threads=1",
        "--kv-memory=64MiB",
        "--memory=16MiB",
        *arguments,
        python=python,
    )


def gone(pid: int) -> bool:
    """Whether a process has ended, waiting for it a while."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False
