"""What a step may give of the rows that it samples; no torch."""

from __future__ import annotations

from enum import Enum

__all__ = ["Wanted"]


class Wanted(Enum):
    """What a step gives of each of its sample rows."""

    LOGITS = "logits"
    LIKELIEST = "likeliest"
    """The likeliest token, which plain greedy requests take."""
    DRAWN = "drawn"
    """The token that the row's request draws; logits where the packed step does not say how."""
