"""Runs another `spectrie` command in its own process, which is always stopped at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from spectrie.errors import SpectrieError
from spectrie.supervise.ready_line import read_ready
from spectrie.supervise.signals import wait_for

__all__ = ["running"]

_STOP_SECONDS = 20.0
_JOIN_SECONDS = 5.0
_LAST_LINES = 15


@contextmanager
def running(arguments: Sequence[str], show: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Starts `spectrie ARGUMENTS` and yields the facts of its ready line.

    Args:
        arguments: Command and flags, such as `["serve", MODEL]`.
        show: Receives every line that it logs while it starts.

    Raises:
        SpectrieError: It ended before it was ready; the message has its last lines.
    """
    command = [sys.executable, "-m", "spectrie", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    output = _Output(process, show)
    try:
        with _terminated_as_exit():
            yield output.wait_ready()
    finally:
        _stop(process)
        output.join()


@contextmanager
def _terminated_as_exit() -> Iterator[None]:
    """Turns SIGTERM into an exception, so that the other process is stopped too."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Output:
    """Reads a process's output on a thread per stream, so that the process never blocks on it."""

    def __init__(self, process: subprocess.Popen[str], show: Callable[[str], None]) -> None:
        self._process = process
        self._show = show
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._facts: dict[str, Any] = {}
        self._settled = threading.Event()
        streams = [(process.stdout, True), (process.stderr, False)]
        self._threads = [
            threading.Thread(target=self._read, args=(stream, is_output), daemon=True)
            for stream, is_output in streams
            if stream is not None
        ]
        for thread in self._threads:
            thread.start()

    def wait_ready(self) -> dict[str, Any]:
        """Waits for the ready line and returns its facts."""
        wait_for(self._settled)
        if self._facts:
            return self._facts
        code = self._process.wait()
        self.join()
        lines = "\n".join(f"  {line}" for line in self._last)
        raise SpectrieError(f"it ended with exit code {code} before it was ready\n{lines}")

    def join(self) -> None:
        """Waits for the end of the streams; a surviving grandchild may hold them open."""
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def _read(self, stream: IO[str], is_output: bool) -> None:
        with stream:
            for line in stream:
                text = line.rstrip("\n")
                facts = read_ready(text) if is_output else None
                if facts is not None:
                    self._facts = facts
                    self._settled.set()
                elif not self._facts:
                    self._last.append(text)
                    if not is_output:
                        self._show(text)
        if is_output:
            self._settled.set()


def _stop(process: subprocess.Popen[str]) -> None:
    """Drains the server, then kills it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
