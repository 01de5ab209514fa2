"""The line with which a process reports to scripts and its supervisor that it is ready."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["PREFIX", "print_ready", "read_ready"]

PREFIX = "spectrie ready "


def print_ready(facts: Mapping[str, Any]) -> None:
    """Writes `spectrie ready {json}` to stdout and flushes it."""
    sys.stdout.write(PREFIX + json.dumps(dict(facts), sort_keys=True) + "\n")
    sys.stdout.flush()


def read_ready(line: str) -> dict[str, Any] | None:
    """Returns the facts of a ready line; None if `line` is not one."""
    if not line.startswith(PREFIX):
        return None
    try:
        facts = json.loads(line[len(PREFIX) :])
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None
