"""The outcome of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "State"]

State = Literal["ok", "note", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check.

    Attributes:
        name: What was looked at.
        state: `ok`, `note` (works, but less well) or `fail`.
        text: What was found, and for a failure what to do.
    """

    name: str
    state: State
    text: str
