"""Results of measurements, kept on disk for the next start."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.files.store import cache_folder

__all__ = ["Measurements", "open_measurements"]


class Measurements:
    """A small JSON file of results by key. If it cannot be read or written, they are measured again."""

    def __init__(self, path: Path | None) -> None:
        """Opens the results in `path`; None keeps them in memory only."""
        self._path = path
        self._answers: dict[str, Any] = {}
        if path is not None:
            self._answers = _load(path)

    def get(self, key: str) -> Any | None:
        """Returns the value stored under `key`, or None."""
        return self._answers.get(key)

    def items(self, prefix: str) -> list[tuple[str, Any]]:
        """Returns every key that begins with `prefix`, with its value."""
        return [(key, value) for key, value in self._answers.items() if key.startswith(prefix)]

    def put(self, key: str, answer: Any, *, on_disk: bool = True) -> None:
        """Stores a JSON value; replaces the file atomically.

        Args:
            key: Name of the measurement.
            answer: Its result.
            on_disk: Whether it outlives this process.
        """
        self._answers[key] = answer
        if self._path is None or not on_disk:
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
