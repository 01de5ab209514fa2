"""Greedy answers in fp32 are those of transformers, token for token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.matrix import NUM_PROMPTS, Case, Outcome, cases

pytestmark = [pytest.mark.model, pytest.mark.timeout(1800)]

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


def gap(model: Any, ids: list[int], ours: int, theirs: int) -> float:
    """Difference of the logits of two tokens after `ids`, by transformers."""
    import torch

    with torch.inference_mode():
        logits = model(torch.tensor([ids])).logits[0, -1]
    return abs(float(logits[ours]) - float(logits[theirs]))


def test_greedy_answers_equal_those_of_transformers(
    peer: tuple[Any, Any], reference: Callable[[str], Outcome]
) -> None:
    model, tokenizer = peer
    answers = reference("float32").answers
    num_equal, unexplained = 0, []
    greedy = [case for case in cases() if case.sampling == "greedy"]
    assert len(greedy) == NUM_PROMPTS >= 24
    for case in greedy:
        ids = prompt_ids(case, tokenizer)
        ours = list(answers[case.id].token_ids)
        assert answers[case.id].usage.prompt_tokens == len(ids)
        theirs = generated(model, ids, len(ours))
        if ours == theirs:
            num_equal += 1
            continue
        first = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
        difference = gap(model, ids + ours[:first], ours[first], theirs[first])
        if difference >= MAX_GAP:
            unexplained.append(f"{case.id}: token {first}, logits {difference:.2e} apart")
    assert unexplained == []
    assert num_equal >= 20
