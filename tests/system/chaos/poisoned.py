"""`spectrie`, but its workers kill themselves at one certain prompt. Run as a module, for tests alone."""

from __future__ import annotations

import os
import signal
import sys

from spectrie._proto import worker_pb2
from spectrie.cli import main
from spectrie.cli.serve import command

__all__ = ["MODULE", "POISON_IDS"]

MODULE = "tests.system.chaos.poisoned"

POISON_IDS = (101, 103, 107, 109, 113, 127)
"""The prompt that no worker survives."""


def poison_workers() -> None:
    """Makes the workers of this process die of the prompt."""
    from spectrie.worker.session import Session

    start = Session._start

    def poisoned(session: Session, order: worker_pb2.Start) -> None:
        if tuple(order.prompt_ids) == POISON_IDS:
            os.kill(os.getpid(), signal.SIGKILL)
        start(session, order)

    Session._start = poisoned  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    command._spectrie = lambda: [sys.executable, "-m", MODULE]
    if sys.argv[1:2] == ["worker"]:
        poison_workers()
    sys.exit(main())
