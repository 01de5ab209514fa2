"""Greedy answers in fp32 are those of transformers, token for token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.cases import NUM_PROMPTS, Case, cases
from tests.exactness.matrix import Outcome

pytestmark = [pytest.mark.model, pytest.mark.timeout(1800)]

GENERATED = 16
"""Tokens that transformers generates one by one: enough to show that its cache changes nothing."""

MAX_GAP = 1e-4
"""Logits closer than this may change places between two right implementations in fp32."""


@pytest.fixture(scope="module")
def peer(model: Path) -> tuple[Any, Any]:
    """Model and tokenizer of transformers, from the same folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval(), tokenizer


def prompt_ids(case: Case, tokenizer: Any) -> list[int]:
    if case.prompt.text is not None:
        return list(tokenizer.encode(case.prompt.text))
    text = tokenizer.apply_chat_template(
        case.prompt.messages, tokenize=False, add_generation_prompt=True
    )
    return list(tokenizer.encode(text, add_special_tokens=False))


def generated(model: Any, ids: list[int], count: int) -> list[int]:
    """What `generate` of transformers gives, up to `count` tokens."""
    import torch

    prompt = torch.tensor([ids])
    output = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        do_sample=False,
        repetition_penalty=1.0,
    )
    return list(output[0, len(ids) :].tolist())


def gaps(model: Any, ids: list[int], answer: list[int]) -> list[float]:
    """By how much each token's logit after those before it is below the largest, by transformers.

    One forward for all of them: where every gap is 0, `generate` gives the same tokens one by one.
    """
    import torch

    with torch.inference_mode():
        logits = model(torch.tensor([ids + answer])).logits[0, len(ids) - 1 : -1]
    own = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
    return list((logits.max(dim=1).values - own).tolist())


def test_greedy_answers_equal_those_of_transformers(
    peer: tuple[Any, Any], reference: Callable[[str], Outcome]
) -> None:
    model, tokenizer = peer
    answers = reference("float32").answers
    num_equal, unexplained = 0, []
    greedy = [case for case in cases() if case.form == "greedy"]
    assert len(greedy) == NUM_PROMPTS >= 24
    for case in greedy:
        ids = prompt_ids(case, tokenizer)
        ours = list(answers[case.id][0].token_ids)
        assert answers[case.id][0].usage.prompt_tokens == len(ids)
        found = gaps(model, ids, ours)
        num_equal += max(found) == 0.0
        unexplained += [
            f"{case.id}: token {index}, logits {gap:.2e} apart"
            for index, gap in enumerate(found)
            if gap >= MAX_GAP
        ]
    assert unexplained == []
    assert num_equal >= 20


def test_transformers_generates_the_same_tokens_itself(
    peer: tuple[Any, Any], reference: Callable[[str], Outcome]
) -> None:
    model, tokenizer = peer
    answers = reference("float32").answers
    for kind in ("code", "chat"):
        case = next(c for c in cases() if c.form == "greedy" and c.prompt.kind == kind)
        ours = list(answers[case.id][0].token_ids)[:GENERATED]
        assert generated(model, prompt_ids(case, tokenizer), len(ours)) == ours
