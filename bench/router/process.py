"""Spectrie's own processes, as a bench starts, kills and measures them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, Self

from spectrie.supervise.ready_line import read_ready

__all__ = ["Process", "router"]

_END_S = 30.0


class Process:
    """A `spectrie` command that is ready, until the block ends.

    Args:
        arguments: Command and flags.
        before: The command that runs it, such as `prlimit`.
    """

    def __init__(self, *arguments: str, before: tuple[str, ...] = ()) -> None:
        command = [*before, sys.executable, "-m", "spectrie", *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.facts = _ready(self._process.stdout)
        """Of its ready line."""
        self.pid = self._process.pid
        # What it prints later is read, so that it never waits for that.
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(number)
                try:
                    self._process.wait(_END_S if number is signal.SIGKILL else 2.0)
                except subprocess.TimeoutExpired:
                    continue
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _ready(output: IO[str]) -> dict[str, Any]:
    for line in output:
        facts = read_ready(line)
        if facts is not None:
            return facts
    raise RuntimeError("the process ended before it was ready")


def router(folder: Path, *options: str, before: tuple[str, ...] = ()) -> Process:
    """A router on free ports, whose workers dial `worker.sock` in `folder`."""
    fixed = ["--http=127.0.0.1:0", "--grpc=127.0.0.1:0", "--log-level=error"]
    listen = f"--worker-listen=unix:{folder}/worker.sock"
    return Process("router", *fixed, listen, *options, before=before)
