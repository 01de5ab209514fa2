"""The processes of the ranks above 0, started and ended by rank 0."""

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
"""The line that a rank prints once its weights are read."""

ENDING_S = 2.0
"""Time between a rank's last closed connection and its end."""

STOP_S = 5.0
"""Time for a rank to end after the stop command."""

FOLLOWER = "spectrie.model.runner.follower"
"""The module that a rank above 0 runs."""


class Ranks:
    """Processes of this interpreter with the same model, each of another rank.

    Each ends when this process ends, even by SIGKILL, because its standard input closes.
    """

    def __init__(self, size: int, timeout_s: float, arguments: Mapping[str, Any]) -> None:
        """Starts the processes; they read their weights in the background.

        Args:
            size: Number of ranks, including rank 0.
            timeout_s: Seconds a rank waits for the others in a forward.
            arguments: Arguments of the loader, as JSON values for `spectrie.model.runner.follower`.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="spectrie-ranks-")
        self.seat = Seat(0, size, Path(self._folder.name), timeout_s)
        """Rank 0's place in the group."""
        self._processes = [self._start(rank, arguments) for rank in range(1, size)]

    def _start(self, rank: int, arguments: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        seat = {
            "rank": rank,
            "size": self.seat.size,
            "folder": self._folder.name,
            "timeout_s": self.seat.timeout_s,
        }
        command = [sys.executable, "-m", FOLLOWER]
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
            RankLost: A rank ended before that; the reason is on standard error.
        """
        for rank, process in enumerate(self._processes, start=1):
            assert process.stdout is not None  # by `_start`
            line = process.stdout.readline().decode(errors="replace").strip()
            if line != READY:
                process.wait()
                raise RankLost(
                    f"rank {rank} ended with exit code {process.returncode} while it was loading; "
                    "its last lines on standard error have the reason"
                )

    def describe(self) -> str:
        """Returns which ranks have ended, for an error message.

        Waits briefly, because a rank's connections close before its end can be observed.
        """
        deadline = time.monotonic() + ENDING_S
        while not (ended := self._ended()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return ended or "no rank has ended"

    def check(self) -> None:
        """Checks that all ranks run, without communicating with them.

        Raises:
            RankLost: A rank ended.
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
        """Ends the processes; kills those that do not end by themselves.

        Args:
            at_once: Whether to kill all without waiting.
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
