"""The served HTTP API, through OpenAI's own client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

MESSAGES: list[Any] = [{"role": "user", "content": "print the class"}]


@pytest.fixture
def client(server: dict[str, Any]) -> Iterator[Any]:
    from openai import OpenAI

    with OpenAI(
        base_url=f"http://{server['http']}/v1", api_key="none", timeout=60, max_retries=0
    ) as client:
        yield client


def test_chat_whole_and_streamed_are_the_same(client: Any) -> None:
    options: dict[str, Any] = {"model": "tiny", "messages": MESSAGES, "max_tokens": 24, "seed": 7}
    whole = client.chat.completions.create(**options)
    choice = whole.choices[0]
    assert choice.finish_reason in ("stop", "length")
    assert 0 < whole.usage.completion_tokens <= 24
    chunks = list(
        client.chat.completions.create(
            **options, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == choice.message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_completion_whole_and_streamed_are_the_same(client: Any) -> None:
    options: dict[str, Any] = {
        "model": "tiny",
        "prompt": "def the",
        "max_tokens": 24,
        "temperature": 0,
    }
    whole = client.completions.create(**options)
    chunks = list(client.completions.create(**options, stream=True))
    assert "".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text


def test_prediction_is_counted_and_changes_nothing(client: Any) -> None:
    options: dict[str, Any] = {
        "model": "tiny",
        "messages": MESSAGES,
        "max_tokens": 40,
        "temperature": 0,
    }
    plain = client.chat.completions.create(**options)
    content = "def return import class for in if else while with self None True"
    predicted = client.chat.completions.create(
        **options, prediction={"type": "content", "content": content}
    )
    assert predicted.choices[0].message.content == plain.choices[0].message.content
    details = predicted.usage.completion_tokens_details
    assert details.rejected_prediction_tokens > 0
    assert details.accepted_prediction_tokens >= 0


def test_bad_input_names_the_field(client: Any) -> None:
    from openai import BadRequestError

    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(model="tiny", messages=MESSAGES, temperature=-1)
    assert caught.value.param == "temperature"


def test_unknown_model_is_not_found(client: Any) -> None:
    from openai import NotFoundError

    with pytest.raises(NotFoundError):
        client.chat.completions.create(model="other", messages=MESSAGES)
