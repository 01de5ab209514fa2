"""Room of the engine for the requests of all threads."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from spectrie.errors import DeadlineExceeded

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["Room"]


class Room:
    """Places of the engine, which refuses more requests than it has; threads wait here for one.

    Args:
        num_places: Requests that it holds at once.
    """

    def __init__(self, num_places: int) -> None:
        self._places = threading.Semaphore(num_places)

    def enter(self, choice: _core.Choice, began_s: float) -> None:
        """Takes a place, within the time of a choice whose request began at `began_s`.

        Raises:
            DeadlineExceeded: None was free until its time was over.
        """
        limit_s = choice.timeout_s
        rest_s = None if limit_s is None else max(began_s + limit_s - time.monotonic(), 0.0)
        if not self._places.acquire(timeout=rest_s):
            raise DeadlineExceeded(
                f"no answer within {limit_s:.12g} s: the engine had no room for it",
                timeout_s=limit_s,
                request_id=choice.request_id,
            )

    def leave(self) -> None:
        """Gives a place back."""
        self._places.release()
