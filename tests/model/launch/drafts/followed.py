"""Steps with trees, served as plain greedy requests are, and the levels that are asked behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spectrie.model import Runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.plan import StepPlan, StepResult
from spectrie.model.step.wanted import Wanted
from tests.model.drafters.session import PAGE, Request
from tests.model.launch.drafts.scenes import TOKENS

__all__ = [
    "Followed",
    "accept",
    "drafts_of",
    "levels_behind",
    "likeliest",
    "owed",
    "prefilled",
    "requests_of",
    "rewind",
    "roots",
]


def drafts_of(runner: Runner, number: int = 0) -> Any:
    """A drafter beside a launcher."""
    return runner._decoder.drafts[number]  # type: ignore[attr-defined]


def likeliest(runner: Runner, plan: StepPlan) -> StepResult:
    """Computes a step as plain greedy requests are served."""
    if not runner.launches:
        result = runner.step(plan)
        return replace(result, tokens=result.logits.argmax(dim=-1).int().numpy())
    return runner.launch(plan, Wanted.LIKELIEST).wait()


_KEPT = 100


@dataclass
class Followed:
    """A request whose next tokens are known, so that drafts of it are right for so many tokens.

    Attributes:
        request: Its pages and committed tokens.
        prompt: Its prompt.
        right: How many drafts of a step's tree are accepted.
        truth: What the model goes on with.
        computed: Tokens of the prompt that are computed once and for all.
    """

    request: Request
    prompt: Sequence[int]
    right: int
    truth: list[int]
    computed: int

    @classmethod
    def of(
        cls,
        runner: Runner,
        prompt: Sequence[int],
        right: int,
        pages: Sequence[int],
        seat: int,
        elsewhere: Runner | None = None,
    ) -> Followed:
        """Computes all of a prompt but its last tokens, and asks the model, or the same one `elsewhere`, what it goes
        on with."""
        request, most = Request(runner, pages, seat=seat), runner.max_batch_rows
        one = cls(request, prompt, right, [], max(1, len(prompt) - max(1, most // 20)))
        for first in range(0, one.computed, most):
            chunk = prompt[first : min(first + most, one.computed)]
            likeliest(runner, request.chunk(chunk))
            request.commit(0, len(chunk))
        request.moves.append((len(chunk) - 1, one.kept))
        result = likeliest(runner, request.chunk(prompt[one.computed :]))
        request.commit(0, len(prompt) - one.computed)
        assert result.tokens is not None
        one.truth.append(int(result.tokens[-1]))
        if elsewhere is not None:
            runner, request = elsewhere, Request(elsewhere, pages)
            runner.step(request.chunk(prompt))
            request.commit(0, len(prompt))
        while len(one.truth) < right + 2:
            result = likeliest(runner, request.chunk(one.truth[-1:]))
            request.commit(0, 1)
            assert result.tokens is not None
            one.truth.append(int(result.tokens[-1]))
        one.rewind()
        return one

    @property
    def kept(self) -> int:
        """Row of the store that keeps the feature behind which a request goes on again."""
        return self.request.store + _KEPT

    def rewind(self) -> None:
        """Goes back to before the last tokens of the prompt."""
        self.request.kv_len = self.computed
        self.request.moves, self.request.copies = [], [(self.kept, self.request.store)]

    @property
    def tree(self) -> StepPlan:
        """The root, its wrong child, then a right child with a wrong one beside it, and so on."""
        tokens, parents, node = [self.truth[0]], [-1], 0
        for depth in range(max(1, self.right)):
            wrong = (self.truth[depth + 1] + 1) % 200
            tokens.append(wrong)
            parents.append(node)
            if depth < self.right:
                tokens.append(self.truth[depth + 1])
                parents.append(node)
                node = len(tokens) - 1
        request = self.request
        end = request.kv_len + len(tokens)
        plan = StepPlan.single(
            tokens,
            kv_len=request.kv_len,
            pages=request.pages[: -(-end // PAGE)],
            parents=parents,
            sample_rows=range(len(tokens)),
            feature=request.store,
            feature_moves=request.moves,
        )
        request.moves = []
        return plan

    def accept(self, first_row: int) -> None:
        """Commits the rows of the tree that carry what is known; they were brought to their places."""
        request, rows = self.request, [0, *range(2, 2 * self.right + 1, 2)]
        request.moves = []
        for row in rows:
            request.kv_len += 1
            if request.kv_len % PAGE == 0:
                page = request.pages[request.kv_len // PAGE - 1]
                request.moves.append((first_row + row, page))
        request.moves.append((first_row + rows[-1], request.store))


def requests_of(runner: Runner, lengths: Sequence[tuple[int, int]]) -> list[Followed]:
    """Requests with prompts of so many tokens, of which so many drafts of the step behind them are accepted."""
    return [
        Followed.of(
            runner,
            TOKENS[index : index + length],
            right,
            range(12 * index, 12 * index + 12),
            seat=index,
        )
        for index, (length, right) in enumerate(lengths)
    ]


def owed(requests: Sequence[Followed]) -> list[tuple[int, int]]:
    """The moves of features that the next level or step must do."""
    moves = [move for one in requests for move in one.request.moves]
    for one in requests:
        one.request.moves = []
    return moves


def roots(requests: Sequence[Followed]) -> list[int]:
    """The token behind the accepted drafts of each."""
    return [one.truth[one.right + 1] for one in requests]


def accept(requests: Sequence[Followed]) -> None:
    """Commits what is right of the trees of a step."""
    row = 0
    for one in requests:
        one.accept(row)
        row += 1 + 2 * max(1, one.right) - (one.right == 0)


def rewind(requests: Sequence[Followed]) -> None:
    """Goes back to before the last tokens of all prompts."""
    for one in requests:
        one.rewind()


def prefilled(runner: Runner, requests: Sequence[Followed]) -> None:
    """Computes the last tokens of all prompts in one step."""
    rest = [one.prompt[one.computed :] for one in requests]
    chunks = [one.request.chunk(tokens) for one, tokens in zip(requests, rest, strict=True)]
    likeliest(runner, StepPlan.joined(chunks))
    row = 0
    for one, tokens in zip(requests, rest, strict=True):
        one.request.commit(row, len(tokens))
        row += len(tokens)


def levels_behind(
    runner: Runner,
    requests: Sequence[Followed],
    order: Sequence[int],
    *,
    is_asked_before: bool,
    scored: Sequence[Sequence[int]],
    of_beams: bool = False,
    scored_before: Sequence[Sequence[int]] | None = None,
) -> list[Answers]:
    """Answers of three levels behind a step of trees, whose first is computed with the step if drafters were asked
    before it; and the second too, if it is of beams.

    Args:
        runner: Of all requests.
        requests: Rows of the step.
        order: Which of them are asked, in which order.
        is_asked_before: Whether a level is asked before the step.
        scored: Tokens that each row of the first level scores.
        of_beams: Whether second levels are of the likeliest tokens of first ones.
        scored_before: Tokens that each row of the level before the step scores: where these are some, the second
            level behind the step is launched once the first is asked.
    """
    prefilled(runner, requests)
    asked = [one.request.asked() for one in requests]
    if is_asked_before:
        roots = [(one.truth[0], one.request.kv_len, i, -1) for i, one in enumerate(requests)]
        moves = [move for one in requests for move in one.request.moves]
        given = runner.draft(LevelPlan.of(asked, roots, moves=moves, scored=scored_before))
        if of_beams:
            rows = [(int(given.ids[i, 0]), one[1] + 1, i, i) for i, one in enumerate(roots)]
            runner.draft(LevelPlan.of(asked, rows, level=2, row_index=len(roots)))
        for one in requests:
            one.request.moves = []
    trees = [one.tree for one in requests]
    result = likeliest(runner, StepPlan.joined(trees))
    assert result.tokens is not None
    row = 0
    for one, plan in zip(requests, trees, strict=True):
        one.accept(row)
        assert result.tokens[row + 2 * one.right] == one.truth[one.right + 1]
        row += len(plan.row_token)
    asked = [requests[index].request.asked() for index in order]
    moves = [move for one in requests for move in one.request.moves]
    first = [
        (requests[index].truth[requests[index].right + 1], asked[number][0], number, -1)
        for number, index in enumerate(order)
    ]
    answers = [runner.draft(LevelPlan.of(asked, first, moves=moves, scored=scored))]
    second = [(7 + row, at + 1, request, row) for row, (_, at, request, _) in enumerate(first)]
    second += [(9, at + 1, request, row) for row, (_, at, request, _) in enumerate(first[:2])]
    if of_beams:
        ids = answers[0].ids
        second = [
            (int(ids[row, 1 + number // len(ids)]), at, request, row)
            for number, (_, at, request, row) in enumerate(second)
        ]
    third = [(11, at + 2, request, len(first)) for _, at, request, _ in first[:1]]
    plans = [
        LevelPlan.of(
            asked,
            second,
            level=2,
            row_index=len(first),
            scored=[[3, 8], *[[]] * (len(second) - 1)] if of_beams else None,
        ),
        LevelPlan.of(asked, third, level=3, row_index=len(first) + len(second), scored=[[4, 9]]),
    ]
    return answers + [runner.draft(plan) for plan in plans]
