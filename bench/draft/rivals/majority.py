"""vLLM's suffix drafter (model runner V2) by its documented rule, in our own words.

Places where the last four tokens (else the last two) occurred in the request or the corpus ring are
candidates; those with the longest common suffix vote for each next token, and the majority stays.
"""

from __future__ import annotations

from collections import Counter, deque

from bench.draft.rivals.base import NO_DRAFT, Draft, Rival, Setup, Tokens, chain
from bench.draft.trace import Request

__all__ = ["Majority"]

_Place = tuple[list[int], int]
"""A log and the index in it of a token that may come next."""

_RING_TOKENS = 1_000_000
_CANDIDATES = 256
"""Newest places looked at, in the request and in the ring."""
_KEYS = (4, 2)


class _Log:
    """Tokens with the places where each pair and each four of them were followed by something."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.places: dict[tuple[int, ...], deque[int]] = {}

    def push(self, tokens: list[int], start: int) -> None:
        """Appends tokens of the document that began at `start`."""
        for token in tokens:
            end = len(self.tokens)
            for key in _KEYS:
                if end - start >= key:
                    gram = tuple(self.tokens[-key:])
                    self.places.setdefault(gram, deque(maxlen=_CANDIDATES)).append(end)
            self.tokens.append(token)


class Majority(Rival):
    """A chain by majority over the longest matches.

    Args:
        setup: The replay.
        depth: Longest suffix compared; its default is 24.
    """

    def __init__(self, setup: Setup, *, depth: int = 24) -> None:
        self._setup = setup
        self._depth = depth
        self._ring = _Log()
        self._own = _Log()

    def insert(self, documents: list[list[int]]) -> None:
        # The ring keeps its newest million tokens.
        first, room = len(documents), _RING_TOKENS
        while first and len(documents[first - 1]) <= room:
            first -= 1
            room -= len(documents[first])
        for document in documents[first:]:
            self._ring.push(document, len(self._ring.tokens))

    def start(self, request: Request) -> None:
        self._own = _Log()
        self._own.push(request.prompt_ids, 0)

    def draft(self, context: Tokens) -> Draft:
        own = self._own.tokens
        for key in _KEYS:
            gram = tuple(own[-key:])
            found = [
                (log.tokens, place)
                for log in (self._own, self._ring)
                for place in log.places.get(gram, ())
            ]
            if found and len(own) >= key:
                return chain(self._vote(self._longest(found, key)))
        return NO_DRAFT

    def accept(self, context: Tokens, count: int) -> None:
        self._own.push(context[-count:].tolist(), 0)

    def finish(self) -> None:
        if self._setup.online:
            self._ring.push(self._own.tokens, len(self._ring.tokens))

    def _longest(self, found: list[_Place], key: int) -> list[_Place]:
        """The places with the longest common suffix."""
        own = self._own.tokens
        best = key
        kept: list[_Place] = []
        for log, place in found:
            length = key
            limit = min(self._depth, place, len(own))
            while length < limit and log[place - 1 - length] == own[-1 - length]:
                length += 1
            if length > best:
                best, kept = length, []
            if length == best:
                kept.append((log, place))
        return kept

    def _vote(self, places: list[_Place]) -> list[int]:
        tokens: list[int] = []
        for offset in range(self._setup.nodes):
            places = [(log, place) for log, place in places if place + offset < len(log)]
            votes = Counter(log[place + offset] for log, place in places)
            if not votes:
                break
            token = votes.most_common(1)[0][0]
            tokens.append(token)
            places = [(log, place) for log, place in places if log[place + offset] == token]
        return tokens
