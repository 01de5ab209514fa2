"""Ends this process when its supervisor ends, even by SIGKILL."""

from __future__ import annotations

import logging
import os
import threading

__all__ = ["VARIABLE", "watch_supervisor"]

log = logging.getLogger("spectrie.worker")

VARIABLE = "SPECTRIE_SUPERVISOR_FD"
"""Environment variable with the read end of a pipe that the supervisor keeps open."""


def watch_supervisor() -> bool:
    """Starts watching if this process has a supervisor; returns whether it has one.

    The pipe closes when the supervisor ends, even by SIGKILL. The variable is removed from the
    environment, so that children of this process do not watch a descriptor they do not have.
    """
    number = os.environ.pop(VARIABLE, None)
    if number is None or not number.isdigit():
        return False
    descriptor = int(number)

    def watch() -> None:
        try:
            while os.read(descriptor, 64):
                pass
        except OSError:
            return
        log.error("the supervisor ended: stopping")
        os._exit(1)

    threading.Thread(target=watch, name="spectrie-guardian", daemon=True).start()
    return True
