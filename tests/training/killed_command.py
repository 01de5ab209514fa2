"""`spectrie train-head`, killed in each of its stages: `python -m tests.training.killed_command ARGUMENT...`.

Each run continues the one before it, in a process of its own. Ends with 0 if each was killed where it should be.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from spectrie.cli import main
from spectrie.training import trainer

KILLS = (
    ("open", "answers.jsonl", 2),
    ("os.rename", "features.json", 2),
    ("os.rename", "checkpoint.pt", 3),
)
"""What a process is about to do when it is killed: an event of Python's, the file that is written, and which time."""


def is_killed(event: str, name: str, count: int, arguments: list[str]) -> bool:
    """Runs the command in a child that is killed at that event."""
    child = os.fork()
    if child:
        return os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    seen = 0

    def watch(what: str, about: tuple[Any, ...]) -> None:
        nonlocal seen
        if what != event or (what == "open" and about[1] != "a"):
            return
        path = about[0] if what == "open" else about[1]
        if isinstance(path, str | Path) and Path(path).name == name:
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    os._exit(main(arguments))


if __name__ == "__main__":
    trainer._SAVE_EVERY_S = -1.0
    sys.exit(0 if all(is_killed(*kill, sys.argv[1:]) for kill in KILLS) else 1)
