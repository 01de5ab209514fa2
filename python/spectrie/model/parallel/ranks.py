"""The processes of the ranks above 0, which rank 0 starts and ends."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spectrie.errors import RankLost
from spectrie.model.parallel.group import Seat

__all__ = ["READY", "Ranks"]

READY = "ready"
"""The line that a rank prints when its weights are read."""

ENDING_S = 2.0
"""Time between a rank's last closed connection and its end."""

STOP_S = 5.0
"""Time a rank has to end once it was told to."""


class Ranks:
    """Processes of this interpreter, each with the same model and a rank of its own.

    Each ends when this process does, however that happens: its standard input closes then.
    """

    def __init__(self, size: int, timeout_s: float, arguments: Mapping[str, Any]) -> None:
        """Starts them; they read their weights meanwhile.

        Args:
            size: Ranks in all, rank 0 included.
            timeout_s: How long a rank waits for the others in a forward.
            arguments: What `spectrie.model.runner.follower` passes to the loader, as JSON has it.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="spectrie-ranks-")
        self.seat = Seat(0, size, Path(self._folder.name), timeout_s)
        """Rank 0's."""
        self._processes = [self._start(rank, arguments) for rank in range(1, size)]

    def _start(self, rank: int, arguments: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        seat = {
            "rank": rank,
            "size": self.seat.size,
            "folder": self._folder.name,
            "timeout_s": self.seat.timeout_s,
        }
        command = [sys.executable, "-m", "spectrie.model.runner.follower"]
        return subprocess.Popen(
            [*command, json.dumps({"seat": seat, **arguments})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A signal of the terminal is rank 0's to answer.
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        """Waits until every rank has read its weights.

        Raises:
            RankLost: One ended before; its reason is on standard error.
        """
        for rank, process in enumerate(self._processes, start=1):
            assert process.stdout is not None  # by `_start`
            line = process.stdout.readline().decode(errors="replace").strip()
            if line != READY:
                process.wait()
                raise RankLost(
                    f"rank {rank} ended with exit code {process.returncode} while it was loading; "
                    "its last lines on standard error say why"
                )

    def describe(self) -> str:
        """Which ranks have ended, for an error.

        Waits a while for one: its connections close before it can be seen to have ended.
        """
        deadline = time.monotonic() + ENDING_S
        while not (ended := self._ended()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return ended or "no rank has ended"

    def check(self) -> None:
        """Looks whether all run, without asking them anything.

        Raises:
            RankLost: One has ended.
        """
        ended = self._ended()
        if ended:
            raise RankLost(ended)

    def _ended(self) -> str:
        return ", ".join(
            f"rank {rank} (process {process.pid}) ended with exit code {process.returncode}"
            for rank, process in enumerate(self._processes, start=1)
            if process.poll() is not None
        )

    def close(self, *, at_once: bool = False) -> None:
        """Ends them, by force where one does not end by itself.

        Args:
            at_once: Whether to force all, without waiting.
        """
        if at_once:
            for process in self._processes:
                process.kill()
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        for process in self._processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()
