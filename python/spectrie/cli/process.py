"""Another `spectrie` command in a process of its own, stopped whatever happens."""

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
from spectrie.worker.ready import read_ready

__all__ = ["running"]

_STOP_SECONDS = 20.0
_LAST_LINES = 15


@contextmanager
def running(arguments: Sequence[str], show: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Starts `spectrie ARGUMENTS` and gives the facts of its ready line.

    Args:
        arguments: Command and flags, such as `["serve", MODEL]`.
        show: Takes every line that it logs while it starts.

    Raises:
        SpectrieError: It ended before it was ready; the message has its last lines.
    """
    command = [sys.executable, "-m", "spectrie", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        yield _wait_ready(process, show)
    finally:
        _stop(process)


def _wait_ready(process: subprocess.Popen[str], show: Callable[[str], None]) -> dict[str, Any]:
    last: deque[str] = deque(maxlen=_LAST_LINES)
    facts: dict[str, Any] = {}
    settled = threading.Event()

    def relay(stream: IO[str], *, is_output: bool) -> None:
        for line in stream:
            text = line.rstrip("\n")
            found = read_ready(text) if is_output else None
            if found is not None:
                facts.update(found)
                settled.set()
            elif not settled.is_set():
                last.append(text)
                if not is_output:
                    show(text)
        if is_output:
            settled.set()

    for stream, is_output in ((process.stdout, True), (process.stderr, False)):
        if stream is not None:
            threading.Thread(
                target=relay, args=(stream,), kwargs={"is_output": is_output}, daemon=True
            ).start()
    settled.wait()
    if not facts:
        code = process.wait()
        lines = "\n".join(f"  {line}" for line in last)
        raise SpectrieError(f"the server ended with exit code {code} before it was ready\n{lines}")
    return facts


def _stop(process: subprocess.Popen[str]) -> None:
    """Drains the server, then insists."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
