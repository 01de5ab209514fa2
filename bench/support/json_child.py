"""A child process that answers JSON lines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

__all__ = ["JsonChild"]


class JsonChild:
    """A process that answers each line on its standard input with one on its standard output.

    Args:
        name: What an error calls it.
        command: Its program and arguments.
        options: Further arguments of `Popen`.
    """

    def __init__(self, name: str, command: Sequence[str], **options: Any) -> None:
        self._name = name
        self._process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )

    def ask(self, question: Any) -> dict[str, Any]:
        """Sends a line; returns the answer.

        Raises:
            RuntimeError: The process has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        """The next line that it prints.

        Raises:
            RuntimeError: The process has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended with code {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """Ends it."""
        self._process.communicate()
