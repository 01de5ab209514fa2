"""Prompt lookup by transformers' rule: a chain copied from an earlier place of the same text."""

from __future__ import annotations

from bench.draft.rivals.base import NO_DRAFT, Absent, Draft, Rival, Setup, Tokens, chain
from bench.draft.trace import Request

__all__ = ["Lookup"]


class Lookup(Rival):
    """Looks for the last tokens of the text in the text.

    Args:
        setup: The replay.
        longest: Maximum number of tokens to match, tried first; transformers has 2.
        latest: Whether the newest place wins; transformers takes the first.
        length: Maximum number of tokens to copy; None is the node budget. transformers' documentation has 10.
    """

    def __init__(
        self, setup: Setup, *, longest: int = 2, latest: bool = False, length: int | None = 10
    ) -> None:
        self._longest = longest
        self._latest = latest
        self._length = min(setup.nodes, length or setup.nodes)
        self._text: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}

    def insert(self, documents: list[list[int]]) -> None:
        raise Absent("prompt lookup knows the request alone")

    def start(self, request: Request) -> None:
        self._text = []
        self._ends = {}
        self._push(request.prompt_ids)

    def draft(self, context: Tokens) -> Draft:
        text = self._text
        for length in range(min(self._longest, len(text)), 0, -1):
            end = self._ends.get(tuple(text[-length:]))
            if end is not None:
                return chain(text[end : end + self._length])
        return NO_DRAFT

    def accept(self, context: Tokens, count: int) -> None:
        self._push(context[-count:].tolist())

    def finish(self) -> None:
        pass  # The next `start` forgets the text.

    def _push(self, tokens: list[int]) -> None:
        """Notes every n-gram that now has a token after it."""
        for token in tokens:
            end = len(self._text)
            for length in range(1, min(self._longest, end) + 1):
                gram = tuple(self._text[-length:])
                if self._latest or gram not in self._ends:
                    self._ends[gram] = end
            self._text.append(token)
