"""Log-probabilities as OpenAI's client reads them."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.http.scripted_worker import ANSWER, MODEL

GREEDY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hello"}],
    "temperature": 0,
}
TOKENS = [*ANSWER.encode()]


def test_chat_tells_of_each_token_its_name_bytes_and_alternatives(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(**GREEDY, logprobs=True, top_logprobs=2).choices[0]
    assert choice.message.content == ANSWER
    assert choice.logprobs is not None and choice.logprobs.content is not None
    content = choice.logprobs.content
    assert [entry.bytes for entry in content] == [*([byte] for byte in TOKENS), None]
    assert content[0].token == "T"
    assert [other.token for other in content[0].top_logprobs] == ["T", "U"]
    assert [other.logprob for other in content[0].top_logprobs] == [-0.25, -1.25]
    assert content[-1].token == "<|end|>"
    # The first half of an e with an accent.
    assert "\\xc3" in [entry.token for entry in content]
    assert choice.logprobs.refusal is None


def test_no_alternatives_are_told_unless_asked_for(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(**GREEDY, logprobs=True).choices[0]
    assert choice.logprobs is not None and choice.logprobs.content is not None
    assert all(not entry.top_logprobs for entry in choice.logprobs.content)
    assert client.chat.completions.create(**GREEDY).choices[0].logprobs is None


@pytest.mark.parametrize("stream", [False, True])
def test_four_choices_have_log_probabilities_of_their_own(
    client: openai.OpenAI, stream: bool
) -> None:
    request: dict[str, Any] = GREEDY | {"temperature": 1, "seed": 3, "n": 4, "logprobs": True}
    texts = [""] * 4
    told: list[list[int]] = [[] for _ in range(4)]
    if stream:
        for chunk in client.chat.completions.create(**request, stream=True):
            part = chunk.choices[0]
            texts[part.index] += part.delta.content or ""
            told[part.index] += _bytes_of(part.logprobs)
    else:
        for choice in client.chat.completions.create(**request).choices:
            texts[choice.index] = choice.message.content or ""
            told[choice.index] += _bytes_of(choice.logprobs)
    assert len(set(texts)) == 4
    assert [bytes(one).decode() for one in told] == texts


@pytest.mark.parametrize("stream", [False, True])
def test_entries_end_with_the_token_that_completes_the_stop_text(
    client: openai.OpenAI, stream: bool
) -> None:
    request: dict[str, Any] = GREEDY | {"stop": "open", "logprobs": True}
    if stream:
        chunks = client.chat.completions.create(**request, stream=True)
        told = [byte for chunk in chunks for byte in _bytes_of(chunk.choices[0].logprobs)]
    else:
        told = _bytes_of(client.chat.completions.create(**request).choices[0].logprobs)
    assert bytes(told).decode() == ANSWER.partition("open")[0] + "open"


@pytest.mark.parametrize("stream", [False, True])
def test_completions_have_lists_side_by_side(client: openai.OpenAI, stream: bool) -> None:
    request: dict[str, Any] = {"model": MODEL, "prompt": "hello", "temperature": 0}
    request |= {"max_tokens": 500, "logprobs": 1}
    if stream:
        chunks = client.completions.create(**request, stream=True)
        found = [chunk.choices[0].logprobs for chunk in chunks]
    else:
        found = [client.completions.create(**request).choices[0].logprobs]
    told = [one for one in found if one is not None]
    tokens = [token for one in told for token in one.tokens or []]
    offsets = [offset for one in told for offset in one.text_offset or []]
    values = [value for one in told for value in one.token_logprobs or []]
    tops = [top for one in told for top in one.top_logprobs or []]
    assert len(tokens) == len(offsets) == len(values) == len(tops) == len(TOKENS) + 1
    assert tokens[:3] == ["T", "h", "e"] and "bytes:\\xc3" in tokens
    assert set(values) == {-0.25}
    assert tops[0] == {"T": -0.25}
    assert offsets[:3] == [0, 1, 2]
    assert offsets[-1] == len(ANSWER)


def test_prompt_is_told_once_and_its_first_token_is_null(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="abc", n=2, max_tokens=4, extra_body={"prompt_logprobs": 2}
    )
    first, second = (choice.model_extra or {} for choice in answer.choices)
    assert "prompt_logprobs" not in second
    told = first["prompt_logprobs"]
    assert told[0] is None and len(told) == 3
    assert told[1] == {
        "98": {"logprob": -0.25, "rank": 1, "decoded_token": "b"},
        "99": {"logprob": -1.25, "rank": 2, "decoded_token": "c"},
    }


def _bytes_of(logprobs: Any) -> list[int]:
    if logprobs is None:
        return []
    return [byte for entry in logprobs.content for byte in entry.bytes or []]
