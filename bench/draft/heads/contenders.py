"""What others make of a head's recorded answers: EAGLE-2's tree, DDTree, a chain, and n-grams with a head behind them.

Answers are known along the recorded output alone. On a path that it did not take, a head is taken to be as sure as
on the output at the same level: children of such paths compete for the nodes, and nothing accepts them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from bench.draft.recording.head_file import HeadAnswers
from bench.draft.rivals.base import NO_DRAFT, Absent, Draft, Rival, Setup, Tokens, chain
from bench.draft.trace import Request

__all__ = ["BlockTree", "HeadChain", "HeadTree", "NgramElse"]


class _Recorded(Rival):
    """A drafter that reads answers, those of one request after the other."""

    def __init__(self, answers: Iterable[HeadAnswers]) -> None:
        self._answers: Iterator[HeadAnswers] = iter(answers)
        self._head: HeadAnswers = []
        self._request = Request([], [])

    def insert(self, documents: list[list[int]]) -> None:
        raise Absent("a head knows no corpus")

    def start(self, request: Request) -> None:
        self._request = request
        self._head = next(self._answers)

    def accept(self, context: Tokens, count: int) -> None:
        pass  # Answers are looked up by the length of the context.

    def finish(self) -> None:
        pass  # The next `start` takes the next answers.

    def _place(self, context: Tokens) -> tuple[list[list[list[float]]], list[int]]:
        """The answers by level behind the context, and the output that they go along."""
        index = len(context) - len(self._request.prompt_ids)
        return self._head[index], self._request.output_ids[index:]


class HeadTree(_Recorded):
    """EAGLE-2's tree: each level expands the best `breadth` beams by their likeliest tokens; of all candidates, those with
    the largest products of probabilities are drafted (Li et al. 2024; `topK_genrate` of its code).

    Args:
        setup: The replay.
        answers: Of each request in turn.
        levels: Levels at most.
        breadth: Beams of a level, and children of each, up to 8.
    """

    def __init__(
        self,
        setup: Setup,
        answers: Iterable[HeadAnswers],
        *,
        levels: int = 5,
        breadth: int = 8,
    ) -> None:
        super().__init__(answers)
        self._nodes, self._levels, self._breadth = setup.nodes, levels, breadth

    def draft(self, context: Tokens) -> Draft:
        levels, path = self._place(context)
        # Tokens, parents and products of all candidates, in the order of their making.
        tokens: list[int] = []
        parents: list[int] = []
        values: list[float] = []
        beams, at = [(-1, 1.0)], -1
        for level, (ids, probabilities, *_) in enumerate(levels[: self._levels]):
            first = len(tokens)
            for beam, value in beams:
                for token, probability in list(zip(ids, probabilities, strict=True))[
                    : self._breadth
                ]:
                    tokens.append(int(token))
                    parents.append(beam)
                    values.append(value * probability)
            made = range(first, len(tokens))
            best = sorted(made, key=lambda node: (-values[node], node))[: self._breadth]
            beams = [(node, values[node]) for node in best]
            # Behind the output's own path only, answers are known.
            at = next((n for n in best if parents[n] == at and tokens[n] == path[level]), -1)
            if at < 0:
                break
        kept = sorted(range(len(tokens)), key=lambda node: (-values[node], node))[: self._nodes]
        numbers = {node: number for number, node in enumerate(sorted(kept))}
        # A child is worth no more than its parent and is made later, so parents are kept too.
        return (
            [tokens[node] for node in numbers],
            [numbers.get(parents[node], -1) for node in numbers],
        )


class BlockTree(_Recorded):
    """DDTree (arXiv 2604.12989): the paths with the largest products of what a block says at each depth, best first.

    For heads whose answers depend on the depth alone, as DFLASH's do: those along the output are those of all paths.

    Args:
        setup: The replay.
        answers: Of each request in turn.
        levels: Levels at most.
    """

    def __init__(self, setup: Setup, answers: Iterable[HeadAnswers], *, levels: int = 5) -> None:
        super().__init__(answers)
        self._nodes, self._levels = setup.nodes, levels

    def draft(self, context: Tokens) -> Draft:
        levels, _ = self._place(context)
        levels = levels[: self._levels]
        tokens: list[int] = []
        parents: list[int] = []
        # Value of the node, then in what order it was thought of, its parent and that one's value, depth and rank.
        heap: list[tuple[float, int, int, float, int, int]] = []
        made = 0

        def push(parent: int, value: float, depth: int, rank: int) -> None:
            nonlocal made
            if depth < len(levels) and rank < len(levels[depth][0]):
                own = value * levels[depth][1][rank]
                heapq.heappush(heap, (-own, made, parent, value, depth, rank))
                made += 1

        push(-1, 1.0, 0, 0)
        while heap and len(tokens) < self._nodes:
            own, _, parent, value, depth, rank = heapq.heappop(heap)
            tokens.append(int(levels[depth][0][rank]))
            parents.append(parent)
            push(parent, value, depth, rank + 1)
            push(len(tokens) - 1, -own, depth + 1, 0)
        return tokens, parents


class HeadChain(_Recorded):
    """The likeliest token, then the likeliest behind it, and so on.

    Args:
        setup: The replay.
        answers: Of each request in turn.
        levels: Length of the chain.
    """

    def __init__(self, setup: Setup, answers: Iterable[HeadAnswers], *, levels: int = 5) -> None:
        super().__init__(answers)
        self._levels = min(levels, setup.nodes)

    def draft(self, context: Tokens) -> Draft:
        levels, path = self._place(context)
        drafted: list[int] = []
        for level, (ids, *_) in enumerate(levels[: self._levels]):
            if not ids:
                break
            drafted.append(int(ids[0]))
            if drafted[-1] != path[level]:
                # What follows is not known and cannot be accepted, but its rows are computed.
                drafted += [drafted[-1]] * (self._levels - len(drafted))
                break
        return chain(drafted)


class NgramElse(Rival):
    """An n-gram drafter where that finds something, else a head: what a step can choose without mixing.

    Args:
        ngram: Asked first.
        head: Asked where that drafts nothing.
    """

    def __init__(self, ngram: Rival, head: Rival) -> None:
        self._parts = ngram, head

    def insert(self, documents: list[list[int]]) -> None:
        self._parts[0].insert(documents)

    def start(self, request: Request) -> None:
        for part in self._parts:
            part.start(request)

    def draft(self, context: Tokens) -> Draft:
        for part in self._parts:
            drafted = part.draft(context)
            if drafted[0]:
                return drafted
        return NO_DRAFT

    def accept(self, context: Tokens, count: int) -> None:
        for part in self._parts:
            part.accept(context, count)

    def finish(self) -> None:
        for part in self._parts:
            part.finish()
