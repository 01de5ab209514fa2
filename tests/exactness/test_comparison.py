"""What the matrix takes for equal answers."""

from __future__ import annotations

import dataclasses

import pytest

from spectrie.types import TokenLogprobs, Usage
from tests.exactness.comparison import same
from tests.exactness.matrix import Answer

TOKEN = TokenLogprobs(5, -0.5, {5: -0.5, 7: -1.25})
ANSWER = Answer((5, 9), "ab", "length", None, Usage(3, 2), (TOKEN, TOKEN), (None, TOKEN))


def told(logprob: float, top: dict[int, float]) -> tuple[TokenLogprobs, ...]:
    return TokenLogprobs(5, logprob, top), TOKEN


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, True),
        ({"logprobs": told(-0.500009, {5: -0.5, 7: -1.250009})}, True),
        ({"logprobs": told(-0.500011, {5: -0.5, 7: -1.25})}, False),
        ({"logprobs": told(-0.5, {5: -0.5, 7: -1.250011})}, False),
        ({"logprobs": told(-0.5, {7: -1.25, 5: -0.5})}, False),
        ({"logprobs": told(-0.5, {5: -0.5})}, False),
        ({"logprobs": (TOKEN,)}, False),
        ({"logprobs": None}, False),
        ({"prompt_logprobs": (TOKEN, TOKEN)}, False),
        ({"token_ids": (5, 8)}, False),
        ({"text": "a"}, False),
        ({"finish_reason": "stop"}, False),
        ({"stop_text": "b"}, False),
        ({"usage": Usage(3, 3)}, False),
    ],
)
def test_answers_are_the_same_but_for_the_last_digits_of_log_probabilities(
    other: dict[str, object], expected: bool
) -> None:
    assert same(dataclasses.replace(ANSWER, **other), ANSWER) is expected  # type: ignore[arg-type]
