"""Runs checks in child processes, and goes on in a new one where an item ended the last."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from bench.gpu.check import Check, Settings
from bench.gpu.running.record import Record

__all__ = ["Supervisor"]

_STDERR_CHARACTERS = 2000
_START_LIMIT_S = 60.0
"""For what a process does before its first item: mostly importing torch."""


class _Child:
    """A running `bench.gpu.running.child`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self._stderr = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.gpu.running.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            # So that what it has started ends with it.
            process_group=0,
            text=True,
        )
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._messages.put(json.loads(line))
        except ValueError:  # killed within a line
            pass
        self._messages.put(None)

    def send(self, task: dict[str, Any]) -> None:
        """Asks for a check."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next message.

        Raises:
            EOFError: The process has ended, or took longer; the message says which, and what it
                printed last.
        """
        try:
            message = self._messages.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            raise EOFError(f"no result in {seconds:.0f} seconds\n{self.close()}") from None
        if message is None:
            code = self._process.wait()
            raise EOFError(f"its process ended with code {code}\n{self.close()}")
        return message

    def close(self) -> str:
        """Ends the process, once; returns the end of what it printed on standard error."""
        if self._stderr.closed:
            return ""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        self._stderr.seek(0)
        printed = self._stderr.read().decode(errors="replace")
        self._stderr.close()
        return printed[-_STDERR_CHARACTERS:]


class Supervisor:
    """Runs the checks of a stage and records their rows.

    Args:
        settings: Given to each check.
        record: Receives a row as soon as an item has ended, however it ended.
        paths: Where Python finds our modules.
        item_limit_s: Seconds that one item may take.
    """

    def __init__(
        self, settings: Settings, record: Record, paths: Sequence[str], item_limit_s: float
    ) -> None:
        self._settings = settings
        self._record = record
        self._paths = paths
        self._item_limit_s = item_limit_s
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def run(self, check: Check, ends: float) -> None:
        """Runs all items of a check, or those that begin before `ends` on the monotonic clock."""
        done: list[str] = []
        while True:
            began, before = "", len(done)
            try:
                child = self._started(check)
                settings = replace(self._settings, device=self._record.device)
                child.send({"items": check.items, "done": done, "settings": asdict(settings)})
                while not (message := child.receive(self._limit_s(began))).get("end"):
                    if "begin" in message:
                        began = message["begin"]
                        if time.monotonic() > ends:
                            self._record.add(
                                check.name, began, "skipped", error="the stage's time is over"
                            )
                            self._close()
                            return
                        continue
                    row = message["row"]
                    self._record.add(check.name, **row)
                    done.append(row["name"])
                    began = ""
                if not message["broken"]:
                    return
                self._close()
            except (EOFError, OSError) as error:
                self._close()
                self._record.add(check.name, began or "start", "fault", error=str(error).strip())
                done.append(began)
                if not began:
                    return
            if len(done) == before:
                return

    def _limit_s(self, began: str) -> float:
        return self._item_limit_s if began else max(self._item_limit_s, _START_LIMIT_S)

    def _started(self, check: Check) -> _Child:
        environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
        # Behind ours, what the caller brought along for this machine.
        given = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join([*self._paths, *filter(None, [given])])
        if self._settings.dry:
            environment["CUDA_VISIBLE_DEVICES"] = ""
            # Tensors are tiny: several threads would mostly wait for one another.
            environment["OMP_NUM_THREADS"] = "1"
            environment["TRITON_CACHE_DIR"] = str(Path(self._settings.scratch) / "triton")
            if check.interpreted:
                environment["TRITON_INTERPRET"] = "1"
        if self._child is None or self._child.environment != environment:
            self._close()
            self._child = _Child(environment)
        return self._child

    def _close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()
