"""Namespaces that no request had before."""

from __future__ import annotations

from itertools import count

__all__ = ["fresh_namespace"]

_NUMBERS = count()


def fresh_namespace() -> str:
    """A name under which neither cached pages nor learnt text of an earlier request serve another."""
    return f"bench-{next(_NUMBERS)}"
