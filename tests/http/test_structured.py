"""The form of an answer as OpenAI's client asks for it."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.http.scripted_worker import MODEL

ASK: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
SCHEMA = {
    "type": "object",
    "properties": {"zoo": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["zoo", "age"],
    "additionalProperties": False,
}


class Animal(BaseModel):
    """What a parsing client wants to get."""

    name: str


def test_json_schema_reaches_the_worker_in_its_own_order(client: openai.OpenAI) -> None:
    form: Any = {"name": "animal", "description": "d", "strict": True, "schema": SCHEMA}
    answer = client.chat.completions.with_raw_response.create(
        **ASK, response_format={"type": "json_schema", "json_schema": form}
    )
    assert "x-spectrie-ignored" not in answer.headers
    content = answer.parse().choices[0].message.content or ""
    assert json.loads(content) == SCHEMA
    assert content.index("zoo") < content.index("age")


def test_schema_of_a_parsing_client_gets_through(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.parse(**ASK, response_format=Animal)
    sent = json.loads(json.loads(raw.text)["choices"][0]["message"]["content"])
    assert sent["properties"]["name"]["type"] == "string"


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"response_format": {"type": "json_object"}}, '{"any": true}'),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "no"),
        ({"structured_outputs": {"regex": "a+"}}, "aaa"),
        ({"structured_outputs": {"grammar": 'start: "a"'}}, "aaa"),
        ({"structured_outputs": {"json": SCHEMA}}, json.dumps(SCHEMA, separators=(",", ":"))),
    ],
)
def test_every_form_is_served_on_both_endpoints(
    client: openai.OpenAI, extra: dict[str, Any], text: str
) -> None:
    chat = client.chat.completions.create(**ASK, extra_body=extra)
    assert chat.choices[0].message.content == text
    plain = client.completions.create(model=MODEL, prompt="x", max_tokens=500, extra_body=extra)
    assert plain.choices[0].text == text


def test_schema_that_cannot_be_compiled_is_the_callers_fault(client: openai.OpenAI) -> None:
    form: Any = {"name": "bad", "schema": {"title": "INVALID"}}
    with pytest.raises(openai.BadRequestError, match="the script cannot compile it") as caught:
        client.chat.completions.create(
            **ASK, response_format={"type": "json_schema", "json_schema": form}
        )
    assert caught.value.code == "invalid_value"
