"""One supervised process: its output, its ready line and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from spectrie.supervise import pulse
from spectrie.supervise.parent_watch import VARIABLE
from spectrie.supervise.pulse import Pulse, read_pulses
from spectrie.supervise.ready_line import read_ready

__all__ = ["Child"]

LAST_LINES = 20
KILL_AFTER_S = 5.0
LAST_LINES_S = 1.0


class Child:
    """A running child process.

    Its stderr lines, and its stdout lines except the ready line, go to this process's stderr with
    the prefix `name`. It ends when this process ends, because it watches a pipe that this one holds.
    It runs in its own session, so that Ctrl-C reaches it only through this process.

    Args:
        name: Prefix of its log lines.
        command: Program and arguments.
        environment: Variables added to this process's own.
        on_ready: Receives the facts of the ready line, on a thread of this object.
        on_exit: Receives the exit code, once, on a thread of this object.
        on_pulse: Receives what it says of its progress, on a thread of this object; None asks for
            nothing.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_ready: Callable[[dict[str, Any]], None],
        on_exit: Callable[[int], None],
        on_pulse: Callable[[Pulse], None] | None = None,
    ) -> None:
        self.name = name
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._on_ready = on_ready
        self._on_exit = on_exit
        read_end, self._pipe = os.pipe()
        pulses, pulse_end = os.pipe() if on_pulse else (None, None)
        variables = {VARIABLE: str(read_end)}
        if pulse_end is not None:
            variables[pulse.VARIABLE] = str(pulse_end)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment, **variables},
                pass_fds=tuple(int(number) for number in variables.values()),
                start_new_session=True,
                text=True,
                errors="replace",
            )
        except OSError:
            os.close(self._pipe)
            if pulses is not None:
                os.close(pulses)
            raise
        finally:
            os.close(read_end)
            if pulse_end is not None:
                os.close(pulse_end)
        self._readers = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        if pulses is not None and on_pulse is not None:
            reading = threading.Thread(target=_pass_on, args=(pulses, on_pulse), daemon=True)
            self._readers.append(reading)
        for reader in self._readers:
            reader.start()
        threading.Thread(target=self._wait, daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    @property
    def last_lines(self) -> list[str]:
        """The last lines of its output."""
        return list(self._last_lines)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal if it is still running."""
        if self.is_running:
            self._process.send_signal(number)

    def stop(self, timeout_s: float) -> None:
        """Sends SIGTERM, waits, and kills the process if it is still running."""
        self.signal(signal.SIGTERM)
        if not self.wait(timeout_s):
            self.kill()

    def kill(self) -> None:
        """Kills it at once."""
        if self.is_running:
            self._process.kill()
        self.wait(KILL_AFTER_S)

    def wait(self, timeout_s: float) -> bool:
        """Waits for its end and its last lines; returns False if it still runs after `timeout_s`."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._finish_reading()
        return True

    def _finish_reading(self) -> None:
        # A grandchild may hold the pipes open: its lines are not waited for.
        for reader in self._readers:
            reader.join(LAST_LINES_S)

    def _read_stdout(self) -> None:
        for line in _lines(self._process.stdout):
            facts = read_ready(line)
            if facts is None:
                self._log(line)
            else:
                self._on_ready(facts)

    def _read_stderr(self) -> None:
        for line in _lines(self._process.stderr):
            self._log(line)

    def _log(self, line: str) -> None:
        self._last_lines.append(line)
        sys.stderr.write(f"[{self.name}] {line}\n")
        sys.stderr.flush()

    def _wait(self) -> None:
        code = self._process.wait()
        self._finish_reading()
        os.close(self._pipe)
        self._on_exit(code)


def _lines(stream: IO[str] | None) -> Iterator[str]:
    return (line.rstrip("\n") for line in stream) if stream is not None else iter(())


def _pass_on(pulses: int, on_pulse: Callable[[Pulse], None]) -> None:
    for one in read_pulses(pulses):
        on_pulse(one)
