"""vLLM's suffix drafter (model runner V2) by its documented rule, in our own words.

Places where the last four tokens (else the last two) occurred in the request or the corpus ring are
candidates; those with the longest common suffix vote for each next token, and the majority stays.
"""

from __future__ import annotations

from collections import Counter, deque

from bench.draft.rivals.base import NO_DRAFT, Draft, Rival, Setup, Tokens, chain
from bench.draft.trace import Request

__all__ = ["Majority"]

_RING_TOKENS = 1_000_000
_CANDIDATES = 256
"""Newest places looked at."""
_KEYS = (4, 2)


class Majority(Rival):
    """A chain by majority over the longest matches.

    Args:
        setup: The replay.
        depth: Longest suffix compared; its default is 24.
    """

    def __init__(self, setup: Setup, *, depth: int = 24) -> None:
        self._setup = setup
        self._depth = depth
        self._log: list[int] = []
        self._places: dict[tuple[int, ...], deque[int]] = {}
        self._start = 0

    def teach(self, documents: list[list[int]]) -> None:
        # The ring keeps its newest million tokens.
        kept: list[list[int]] = []
        room = _RING_TOKENS
        for document in reversed(documents):
            if len(document) > room:
                break
            room -= len(document)
            kept.append(document)
        for document in reversed(kept):
            self._start = len(self._log)
            self._push(document)

    def start(self, request: Request) -> None:
        if not self._setup.online and not self._start:
            self._log, self._places = [], {}
        self._start = len(self._log)
        self._push(request.prompt_ids)

    def draft(self, context: Tokens) -> Draft:
        log, own = self._log, len(self._log) - self._start
        for key in _KEYS:
            places = self._places.get(tuple(log[-key:])) if own >= key else None
            if places:
                return chain(self._vote(self._longest(places, key)))
        return NO_DRAFT

    def accept(self, context: Tokens, count: int) -> None:
        self._push(context[-count:].tolist())

    def finish(self) -> None:
        pass  # The next `start` decides what stays.

    def _longest(self, places: deque[int], key: int) -> list[int]:
        log = self._log
        best = key
        found: list[int] = []
        for place in places:
            length = key
            most = min(self._depth, place, len(log) - self._start)
            while length < most and log[place - 1 - length] == log[-1 - length]:
                length += 1
            if length > best:
                best, found = length, []
            if length == best:
                found.append(place)
        return found

    def _vote(self, places: list[int]) -> list[int]:
        log, tokens = self._log, []
        for offset in range(self._setup.nodes):
            votes = Counter(log[place + offset] for place in places if place + offset < len(log))
            if not votes:
                break
            token = votes.most_common(1)[0][0]
            tokens.append(token)
            places = [
                place
                for place in places
                if place + offset < len(log) and log[place + offset] == token
            ]
        return tokens

    def _push(self, tokens: list[int]) -> None:
        for token in tokens:
            end = len(self._log)
            for key in _KEYS:
                if end - self._start >= key:
                    gram = tuple(self._log[-key:])
                    self._places.setdefault(gram, deque(maxlen=_CANDIDATES)).append(end)
            self._log.append(token)
