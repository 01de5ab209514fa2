"""The recorded requests that are played, and made-up ones where there is no device."""

from __future__ import annotations

from bench.draft import trace
from bench.draft.trace import Request
from bench.gpu.check import Settings
from bench.gpu.models.shapes import TINY

__all__ = ["recorded"]

_PATTERN = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8)
_DRY_REQUESTS = 6


def recorded(settings: Settings, family: str) -> list[Request]:
    """The requests of a trace, in arrival order."""
    if not settings.dry:
        return trace.read(trace.TRACES / f"{family}.jsonl.xz")
    return [_made_up(number) for number in range(_DRY_REQUESTS)]


def _made_up(number: int) -> Request:
    """A short text that repeats itself, and its own next token as the likeliest everywhere."""
    prompt = [7 + number, *_PATTERN, *_PATTERN]
    output = list(_PATTERN)
    text = [*prompt, *output]
    following = [*text[1:], 0]
    topk = [([token % TINY.vocabulary], [0.9]) for token in following]
    return Request(prompt, output, topk=topk)
