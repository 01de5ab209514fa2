"""Results of measurements, kept on disk for the next start."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.files.store import cache_folder

__all__ = ["Measurements", "open_measurements"]

_ROUGH = "while busy: "
_ROUGH_S = 3600.0
"""How long a rough result will do: a machine that is busy for days is not as busy all the time."""


class Measurements:
    """A small JSON file of results by key. If it cannot be read or written, they are measured again."""

    def __init__(self, path: Path | None) -> None:
        """Opens the results in `path`; None keeps them in memory only."""
        self._path = path
        self._answers: dict[str, Any] = {}
        if path is not None:
            self._answers = _load(path)

    def get(self, key: str, *, is_busy: Callable[[], bool] = lambda: False) -> Any | None:
        """Returns the value stored under `key`, or None.

        Args:
            key: Name of the measurement.
            is_busy: Says whether a rough one of the last hour will do, as another one would be no better now. Asked
                where there is no other.
        """
        found = self._answers.get(key)
        if found is not None:
            return found
        rough = self._answers.get(_ROUGH + key)
        if not isinstance(rough, dict) or not isinstance(rough.get("unix_s"), float):
            return None
        is_young = 0 <= time.time() - rough["unix_s"] < _ROUGH_S
        return rough.get("answer") if is_young and is_busy() else None

    def items(self, prefix: str) -> list[tuple[str, Any]]:
        """Returns every key that begins with `prefix`, with its value."""
        return [(key, value) for key, value in self._answers.items() if key.startswith(prefix)]

    def put(self, key: str, answer: Any, *, is_rough: bool = False) -> None:
        """Stores a JSON value; replaces the file atomically.

        Args:
            key: Name of the measurement.
            answer: Its result.
            is_rough: Whether it was measured while other processes kept the machine busy.
        """
        if is_rough:
            self._answers[_ROUGH + key] = {"unix_s": time.time(), "answer": answer}
        else:
            self._answers[key] = answer
        if self._path is None:
            return
        # Another process may have added answers since.
        self._answers = _load(self._path) | self._answers
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".measurements-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(self._answers, file, indent=1, sort_keys=True)
                os.replace(name, self._path)
            except OSError:
                os.unlink(name)
        except OSError:
            self._path = None


def open_measurements() -> Measurements:
    """Returns those of the cache folder; without one they are kept in memory."""
    try:
        return Measurements(cache_folder() / "measurements.json")
    except ModelError:
        return Measurements(None)


def _load(path: Path) -> dict[str, Any]:
    try:
        answers = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return answers if isinstance(answers, dict) else {}
