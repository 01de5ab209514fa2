"""In process and over the wire the answers are one: same options and seed, same everything."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import spectrie
from spectrie.types import Completion
from tests.options import EVERY_OPTION

PROMPT = "one two three one two"
BARRED = EVERY_OPTION | {"bad_words": ["the", "one"]}
CASES: dict[str, dict[str, Any]] = {
    "greedy": {"max_tokens": 24, "temperature": 0.0},
    "sampled": {"max_tokens": 24, "temperature": 0.8, "top_p": 0.95, "seed": 11},
    "typical": {"max_tokens": 24, "typical_p": 0.7, "seed": 3},
    "barred words": {"max_tokens": 48, "bad_words": ["a", "e", "the"], "seed": 4},
    "log-probabilities": {"max_tokens": 12, "logprobs": 0, "prompt_logprobs": 20, "seed": 6},
    "every option": BARRED,
    "without drafts": {**BARRED, "speculation": False},
    "ended by a text": {"max_tokens": 64, "stop": ["e", "th"], "logprobs": 2, "seed": 5},
    "ended by a token": {"max_tokens": 64, "stop_token_ids": [7, 8, 9, 10, 11], "seed": 9},
    "held to an expression": {"max_tokens": 40, "regex": "[a-f]{4,9}", "logprobs": 1, "seed": 8},
}


def facts(answer: Completion) -> dict[str, Any]:
    """What an answer says, but for what depends on earlier requests and on the clock."""
    return {
        "text": answer.text,
        "token_ids": answer.token_ids,
        "finish_reason": answer.finish_reason,
        "stop_text": answer.stop_text,
        "stop_token_id": answer.stop_token_id,
        "usage": dataclasses.replace(answer.usage, cached_tokens=0),
        "index": answer.index,
        "logprobs": answer.logprobs,
        "prompt_logprobs": answer.prompt_logprobs,
    }


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_the_same_in_process_and_over_the_wire(
    llm: spectrie.LLM, client: spectrie.Client, name: str
) -> None:
    options = CASES[name]
    here = llm.generate(PROMPT, **options)
    there = client.generate(PROMPT, **options)
    assert facts(there) == facts(here)
    assert there.logprobs is None or len(there.logprobs) == len(there.token_ids)
    assert (there.logprobs is None) == ("logprobs" not in options)
    assert (there.prompt_logprobs is None) == ("prompt_logprobs" not in options)
    if "seed" in options:
        assert there.seed == here.seed == options["seed"]


def test_choices_are_the_same_in_process_and_over_the_wire(
    llm: spectrie.LLM, client: spectrie.Client
) -> None:
    here = llm.generate(PROMPT, n=3, **EVERY_OPTION)
    there = client.generate_choices(PROMPT, n=3, **EVERY_OPTION)
    assert len({choice.token_ids for choice in there}) == 3
    for mine, other in zip(here.choices, there, strict=True):
        assert {**facts(other), "prompt_logprobs": None} == {**facts(mine), "prompt_logprobs": None}
    assert there[0].prompt_logprobs == here.prompt_logprobs


def test_a_chat_and_a_stream_are_the_same_in_process_and_over_the_wire(
    llm: spectrie.LLM, client: spectrie.Client
) -> None:
    messages: list[spectrie.Message] = [{"role": "user", "content": "two one"}]
    options: dict[str, Any] = {"max_tokens": 20, "seed": 2, "logprobs": 1}
    here = llm.chat(messages, **options)
    assert facts(client.chat(messages, **options)) == facts(here)
    with client.stream(messages=messages, **options) as stream:
        deltas = list(stream)
        assert facts(stream.final()) == facts(here)
    assert sum((delta.logprobs or () for delta in deltas), ()) == here.logprobs


def test_token_ids_and_texts_are_the_same_in_process_and_over_the_wire(
    llm: spectrie.LLM, client: spectrie.Client
) -> None:
    ids = llm.tokenizer.encode(PROMPT, add_special_tokens=True)
    assert client.tokenize(PROMPT, add_special_tokens=True) == ids
    assert client.detokenize(ids) == llm.tokenizer.decode(ids)
