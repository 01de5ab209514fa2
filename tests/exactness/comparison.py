"""What counts as the same answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from spectrie.types import TokenLogprobs
from tests.exactness.matrix import Answer, Outcome

__all__ = ["differences", "same"]

LOGPROB_TOLERANCE = 1e-5


def same(got: Answer, expected: Answer) -> bool:
    """Whether everything is equal, log-probabilities to a tolerance."""

    def without(answer: Answer) -> Answer:
        return dataclasses.replace(answer, logprobs=None, prompt_logprobs=None)

    return (
        without(got) == without(expected)
        and close(got.logprobs, expected.logprobs)
        and close(got.prompt_logprobs, expected.prompt_logprobs)
    )


def close(
    got: Sequence[TokenLogprobs | None] | None, expected: Sequence[TokenLogprobs | None] | None
) -> bool:
    """Whether log-probabilities are of the same tokens and equal to the tolerance."""
    if got is None or expected is None:
        return got is expected
    return len(got) == len(expected) and all(map(close_token, got, expected))


def close_token(got: TokenLogprobs | None, expected: TokenLogprobs | None) -> bool:
    if got is None or expected is None:
        return got is expected
    return (
        (got.token_id, *got.top) == (expected.token_id, *expected.top)
        and math.isclose(got.logprob, expected.logprob, abs_tol=LOGPROB_TOLERANCE)
        and all(
            math.isclose(got.top[token], expected.top[token], abs_tol=LOGPROB_TOLERANCE)
            for token in got.top
        )
    )


def differences(got: Outcome, expected: Outcome) -> list[str]:
    """The choices whose answers are not the same, with the first token that differs."""
    found = []
    for name, answers in got.answers.items():
        for index, (one, other) in enumerate(zip(answers, expected.answers[name], strict=True)):
            if same(one, other):
                continue
            pairs = zip(one.token_ids, other.token_ids, strict=False)
            first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
            found.append(f"{name}[{index}]: token {first}: {one} instead of {other}")
    return found
