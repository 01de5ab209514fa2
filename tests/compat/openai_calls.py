"""Calls a server through whichever `openai` package runs this, and prints as JSON what came back.

Run by test_openai.py in an environment that has that package alone.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import openai

MESSAGES: list[Any] = [{"role": "user", "content": "print the class"}]
CHAT: dict[str, Any] = {"model": "tiny", "messages": MESSAGES, "max_tokens": 24, "seed": 7}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]}
FORM = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}


def whole(client: Any) -> Any:
    return client.chat.completions.create(**CHAT).model_dump()


def streamed(client: Any) -> Any:
    stream = client.chat.completions.create(
        **CHAT, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    return {
        "text": "".join(one.choices[0].delta.content or "" for one in chunks if one.choices),
        "usage": chunks[-1].usage.model_dump(),
    }


def from_helper(client: Any) -> Any:
    """The package's own helper, which puts the events together, and takes no answer that was cut short."""
    options = CHAT | {"max_tokens": 200, "temperature": 0}
    with client.chat.completions.stream(**options, response_format=FORM) as stream:
        return stream.get_final_completion().model_dump()


def asynchronous(client: Any) -> Any:
    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=str(client.base_url), api_key="none") as other:
            return await other.chat.completions.create(**CHAT)

    return asyncio.run(ask()).model_dump()


def choices(client: Any) -> Any:
    answer = client.chat.completions.create(**CHAT, n=2, logprobs=True, top_logprobs=3)
    return answer.model_dump()


def completion(client: Any) -> Any:
    return client.completions.create(
        model="tiny", prompt="def the", max_tokens=24, seed=7
    ).model_dump()


def predicted(client: Any) -> Any:
    text = client.chat.completions.create(**CHAT).choices[0].message.content
    prediction = {"type": "content", "content": text}
    return client.chat.completions.create(**CHAT, prediction=prediction).model_dump()


def structured(client: Any) -> Any:
    options = CHAT | {"max_tokens": 200, "temperature": 0}
    return client.chat.completions.create(**options, response_format=FORM).model_dump()


def models(client: Any) -> Any:
    return [one.model_dump() for one in client.models.list()]


def error(call: Any) -> Any:
    try:
        call()
    except openai.APIStatusError as failure:
        return {
            "class": type(failure).__name__,
            "status": failure.status_code,
            "code": failure.code,
            "param": failure.param,
        }
    return None


def main(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="none", timeout=60, max_retries=0) as client:
        create = client.chat.completions.create
        calls = (
            whole,
            streamed,
            from_helper,
            asynchronous,
            choices,
            completion,
            predicted,
            structured,
            models,
        )
        results: dict[str, Any] = {call.__name__: call(client) for call in calls}
        results["errors"] = {
            "temperature": error(lambda: create(**CHAT, temperature=-1)),
            "model": error(lambda: create(**{**CHAT, "model": "other"})),
            "context": error(lambda: create(**{**CHAT, "max_tokens": 100_000})),
            "responses": error(lambda: client.responses.create(model="tiny", input="a")),
        }
    json.dump({"version": openai.__version__, **results}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
