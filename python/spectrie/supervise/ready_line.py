"""The line by which a process tells scripts and its supervisor that it is ready."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["PREFIX", "print_ready", "read_ready"]

PREFIX = "spectrie ready "


def print_ready(facts: Mapping[str, Any]) -> None:
    """Writes `spectrie ready {json}` on stdout, at once."""
    sys.stdout.write(PREFIX + json.dumps(dict(facts), sort_keys=True) + "\n")
    sys.stdout.flush()


def read_ready(line: str) -> dict[str, Any] | None:
    """The facts of a ready line; None when `line` is none."""
    if not line.startswith(PREFIX):
        return None
    try:
        facts = json.loads(line[len(PREFIX) :])
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None
