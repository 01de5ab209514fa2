"""Waiting on the main thread without missing a signal."""

from __future__ import annotations

import threading

__all__ = ["SIGNAL_S", "wait_for"]

SIGNAL_S = 1.0
"""How long a signal may go unheard that comes just before a wait begins: Python ends no wait for it."""


def wait_for(event: threading.Event) -> None:
    """Waits until `event` is set, and hears every signal within `SIGNAL_S` seconds."""
    while not event.wait(SIGNAL_S):
        pass
