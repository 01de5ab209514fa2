"""The known name that a wrong one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the most similar known name, or nothing."""
    matches = difflib.get_close_matches(given, sorted(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
