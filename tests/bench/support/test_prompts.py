"""The shared prompts are complete and well formed."""

from __future__ import annotations

import pytest

from bench.support.prompts import KINDS, Kind, load


@pytest.mark.parametrize("kind", KINDS)
def test_twelve_prompts_of_every_kind_with_names_of_their_own(kind: Kind) -> None:
    prompts = load(kind)
    assert len({prompt.id for prompt in prompts}) == 12
    assert all((prompt.text is None) != (prompt.question is None) for prompt in prompts)


def test_edit_prompts_predict_the_function_they_show() -> None:
    for prompt in load("edit"):
        assert prompt.prediction and prompt.question
        assert prompt.prediction.strip() in prompt.question


def test_more_prompts_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="13 prompts of kind chat"):
        load("chat", 13)
