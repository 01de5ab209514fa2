"""What a supervised process says of its progress, again and again, through a pipe of its supervisor."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

__all__ = ["STACKS_SIGNAL", "VARIABLE", "Pulse", "open_pulse", "read_pulses"]

VARIABLE = "SPECTRIE_PULSE_FD"
"""Environment variable with the write end of a pipe that the supervisor reads."""

STACKS_SIGNAL = signal.SIGUSR1
"""Makes a process that has a pulse write the stacks of its Python threads to stderr, whatever holds
the GIL."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """How far a process is.

    Attributes:
        progress: A number that changes with each piece of work done.
        pending: Whether there is work to do. Without it, standing still is no fault.
        patience_s: Seconds that one piece of work may take, whatever the supervisor's own limit.
    """

    progress: int
    pending: bool
    patience_s: float


def open_pulse() -> Callable[[Pulse], None] | None:
    """Returns what sends a pulse to the supervisor; None without one. Call it once, early.

    The variable is removed from the environment, so that children of this process do not use a
    descriptor they do not have. From now on this process writes its stacks on `STACKS_SIGNAL`.
    """
    number = os.environ.pop(VARIABLE, None)
    if number is None or not number.isdigit():
        return None
    descriptor = int(number)
    # A supervisor that is stopped must not stop this process too.
    os.set_blocking(descriptor, False)
    faulthandler.register(STACKS_SIGNAL, all_threads=True)

    def send(pulse: Pulse) -> None:
        try:
            os.write(descriptor, json.dumps(asdict(pulse)).encode() + b"\n")
        except OSError:
            # It does not read, or it ended, which another thread notices.
            return

    return send


def read_pulses(descriptor: int) -> Iterator[Pulse]:
    """Yields the pulses that arrive at the read end of the pipe; closes it at the end."""
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as lines:
        for line in lines:
            try:
                yield Pulse(**json.loads(line))
            except (ValueError, TypeError):
                continue
