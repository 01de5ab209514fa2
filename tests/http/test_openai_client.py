"""OpenAI's Python client against the HTTP API."""

from __future__ import annotations

import json
import queue
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.http.scripted_worker import ANSWER, MODEL
from tests.http.server import Server

USER: list[Any] = [{"role": "user", "content": "hello"}]
GREEDY: dict[str, Any] = {"model": MODEL, "messages": USER, "temperature": 0}
ANSWER_TOKENS = len(ANSWER.encode()) + 1


def test_chat_gives_text_usage_and_speculation_figures(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**GREEDY)
    choice = answer.choices[0]
    assert choice.message.content == ANSWER
    assert choice.message.role == "assistant"
    assert choice.finish_reason == "stop"
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    assert answer.system_fingerprint is not None and answer.system_fingerprint.startswith("fp_")
    usage = answer.usage
    assert usage is not None
    assert usage.prompt_tokens == len("user: hello\nassistant: ")
    assert usage.completion_tokens == ANSWER_TOKENS
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 1
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 0
    assert answer.model_extra is not None
    speculation = answer.model_extra["spectrie"]["speculation"]
    emitted_later = speculation["accepted_tokens"] + speculation["verify_steps"]
    assert emitted_later == usage.completion_tokens - 1
    assert speculation["accepted_by_source"]["request"] == speculation["accepted_tokens"]


def test_chat_stream_has_role_first_reason_last_and_usage_after_it(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        **GREEDY, stream=True, stream_options={"include_usage": True}
    )
    chunks: list[ChatCompletionChunk] = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:-1])
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert text == ANSWER
    reasons = [chunk.choices[0].finish_reason for chunk in chunks[:-1]]
    assert reasons == [None] * (len(chunks) - 2) + ["stop"]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    usage = chunks[-1].usage
    assert usage is not None and usage.completion_tokens == ANSWER_TOKENS


def test_stream_without_include_usage_says_nothing_of_usage(client: openai.OpenAI) -> None:
    with client.chat.completions.with_streaming_response.create(**GREEDY, stream=True) as raw:
        assert raw.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in raw.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert all("usage" not in event and "spectrie" not in event for event in events)


def test_stream_that_speaks_of_speculation_ends_with_its_figures(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        **GREEDY, stream=True, extra_body={"speculation": {"enabled": True}}
    )
    last = list(stream)[-1]
    assert last.model_extra is not None
    assert last.model_extra["spectrie"]["speculation"]["verify_steps"] > 0


def test_completion_stops_at_sixteen_tokens_unless_told(client: openai.OpenAI) -> None:
    short = client.completions.create(model=MODEL, prompt="hello", temperature=0)
    assert short.object == "text_completion"
    assert short.id.startswith("cmpl-")
    assert short.choices[0].finish_reason == "length"
    assert short.usage is not None and short.usage.completion_tokens == 16
    assert ANSWER.startswith(short.choices[0].text)
    long = client.completions.create(model=MODEL, prompt="hello", temperature=0, max_tokens=500)
    assert long.choices[0].text == ANSWER
    assert long.choices[0].finish_reason == "stop"


def test_completion_stream_is_the_whole_answer_in_pieces(client: openai.OpenAI) -> None:
    stream = client.completions.create(
        model=MODEL, prompt="hello", temperature=0, max_tokens=500, stream=True
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == ANSWER
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_completion_takes_token_ids_and_gives_them_back(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL,
        prompt=list(b"hello"),
        temperature=0,
        max_tokens=8,
        extra_body={"return_token_ids": True},
    )
    assert answer.usage is not None and answer.usage.prompt_tokens == 5
    assert answer.choices[0].model_extra is not None
    assert answer.choices[0].model_extra["token_ids"] == list(ANSWER.encode()[:8])


def test_completion_answers_several_prompts_in_order(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=["a", "bcd"], n=2, seed=5, temperature=1, max_tokens=200
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.usage is not None and answer.usage.prompt_tokens == 4
    texts = [choice.text for choice in answer.choices]
    # The same seed for each prompt; the second choice of each has a seed of its own.
    assert texts[0] == texts[2] == f"5 {ANSWER}"
    assert texts[1] == texts[3] != texts[0]


@pytest.mark.parametrize("stream", [False, True])
def test_n_gives_choices_that_differ(client: openai.OpenAI, stream: bool) -> None:
    request: dict[str, Any] = {"model": MODEL, "messages": USER, "n": 2, "seed": 7}
    texts = ["", ""]
    if stream:
        reasons: list[str] = []
        for chunk in client.chat.completions.create(**request, temperature=1, stream=True):
            choice = chunk.choices[0]
            texts[choice.index] += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
        assert reasons == ["stop", "stop"]
    else:
        answer = client.chat.completions.create(**request, temperature=1)
        texts = [choice.message.content or "" for choice in answer.choices]
        assert answer.usage is not None and answer.usage.prompt_tokens == 23
    assert texts[0] == f"7 {ANSWER}"
    assert texts[1].endswith(ANSWER) and texts[1] != texts[0]


def test_seed_repeats_and_is_told_when_drawn(client: openai.OpenAI) -> None:
    drawn = client.chat.completions.create(model=MODEL, messages=USER, temperature=1)
    assert drawn.model_extra is not None
    seed = drawn.model_extra["spectrie"]["seed"]
    again = client.chat.completions.create(model=MODEL, messages=USER, temperature=1, seed=seed)
    assert again.choices[0].message.content == drawn.choices[0].message.content
    negative = client.chat.completions.create(model=MODEL, messages=USER, temperature=1, seed=-1)
    assert (negative.choices[0].message.content or "").startswith(f"{2**64 - 1} ")


@pytest.mark.parametrize("stream", [False, True])
def test_stop_text_ends_the_answer_and_is_not_part_of_it(
    client: openai.OpenAI, stream: bool
) -> None:
    if stream:
        chunks = list(client.chat.completions.create(**GREEDY, stop="你好", stream=True))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        last: Any = chunks[-1].choices[0]
    else:
        last = client.chat.completions.create(**GREEDY, stop=["never", "你好"]).choices[0]
        text = last.message.content or ""
    assert text == ANSWER.partition("你好")[0]
    assert last.finish_reason == "stop"
    assert last.model_extra["stop_reason"] == "你好"


def test_prediction_counts_what_came_true(client: openai.OpenAI) -> None:
    prediction = ANSWER[:20] + "something else"
    answer = client.chat.completions.create(
        **GREEDY, prediction={"type": "content", "content": prediction}
    )
    assert answer.choices[0].message.content == ANSWER
    assert answer.usage is not None and answer.usage.completion_tokens_details is not None
    details = answer.usage.completion_tokens_details
    accepted, rejected = details.accepted_prediction_tokens, details.rejected_prediction_tokens
    assert accepted is not None and rejected is not None
    assert accepted >= len(ANSWER[:20].encode())
    assert accepted + rejected == len(prediction.encode())


def test_prediction_takes_text_parts(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        **GREEDY,
        prediction={
            "type": "content",
            "content": [{"type": "text", "text": ANSWER[:9]}, {"type": "text", "text": ANSWER[9:]}],
        },
    )
    assert answer.usage is not None and answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.rejected_prediction_tokens == 0


def test_length_is_the_finish_reason_at_max_tokens(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**GREEDY, max_completion_tokens=5)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None and answer.usage.completion_tokens == 5


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "spectrie"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("org/other")
    assert caught.value.code == "model_not_found"


def test_fields_without_effect_are_named_in_a_header(client: openai.OpenAI) -> None:
    answer = client.chat.completions.with_raw_response.create(
        **GREEDY, user="me", reasoning_effort="low", extra_body={"frobnicate": 1}
    )
    assert answer.headers["x-spectrie-ignored"] == "frobnicate, reasoning_effort"


def test_request_id_is_sent_back(client: openai.OpenAI) -> None:
    answer = client.chat.completions.with_raw_response.create(
        **GREEDY, extra_headers={"x-request-id": "trace-1"}
    )
    assert answer.headers["x-request-id"] == "trace-1"
    drawn = client.chat.completions.create(**GREEDY)
    assert drawn._request_id


@pytest.mark.parametrize(
    ("request_fields", "error", "code"),
    [
        ({"temperature": 101}, openai.BadRequestError, "invalid_value"),
        ({"max_tokens": 5000}, openai.BadRequestError, "context_length_exceeded"),
        (
            {"messages": [{"role": "user", "content": "x" * 100_000}]},
            openai.BadRequestError,
            "context_length_exceeded",
        ),
        ({"top_logprobs": 5}, openai.BadRequestError, "invalid_value"),
        ({"tools": [{}]}, openai.BadRequestError, "unsupported_value"),
        ({"model": "gpt-9"}, openai.NotFoundError, "model_not_found"),
        (
            {"messages": [{"role": "user", "content": "x" * 5_000_000}]},
            openai.APIStatusError,
            "request_too_large",
        ),
    ],
)
def test_errors_are_the_client_s_own_classes(
    client: openai.OpenAI, request_fields: dict[str, Any], error: type[Exception], code: str
) -> None:
    with pytest.raises(error) as caught:
        client.chat.completions.create(**GREEDY | request_fields)
    assert isinstance(caught.value, openai.APIStatusError)
    assert caught.value.code == code


def test_failure_before_the_first_token_is_a_status_even_of_a_stream(
    client: openai.OpenAI,
) -> None:
    request = GREEDY | {"messages": [{"role": "user", "content": "REFUSE"}]}
    for stream in [False, True]:
        with pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(**request, stream=stream)
        assert caught.value.code == "queue_full"
        assert "the script refuses" in str(caught.value)
        assert int(caught.value.response.headers["retry-after"]) >= 1


def test_failure_inside_a_stream_raises_and_no_done_follows(
    client: openai.OpenAI, scripted: Server
) -> None:
    request = GREEDY | {"messages": [{"role": "user", "content": "FAIL"}], "stream": True}
    with client.chat.completions.with_streaming_response.create(**request) as raw:
        assert raw.status_code == 200
        lines = []
        for line in raw.iter_lines():
            scripted.worker.fail()
            lines += [line] if line else []
    assert "error" in json.loads(lines[-1].removeprefix("data: "))
    text = ""
    with pytest.raises(openai.APIError) as caught:
        for chunk in client.chat.completions.create(**request):
            scripted.worker.fail()
            text += chunk.choices[0].delta.content or ""
    assert text == ANSWER[:7]  # The eighth byte is half of a letter.
    assert caught.value.code == "internal"
    assert client.chat.completions.create(**GREEDY).choices[0].message.content == ANSWER


def test_death_of_the_only_worker_inside_a_stream_is_not_seen(
    client: openai.OpenAI, scripted: Server
) -> None:
    request = GREEDY | {"messages": [{"role": "user", "content": "DIE"}], "stream": True}
    request |= {"stream_options": {"include_usage": True}}
    text, usage = "", None
    for chunk in client.chat.completions.create(**request):
        scripted.worker.fail()
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == ANSWER
    assert usage is not None
    assert usage.completion_tokens == len(ANSWER.encode()) + 1


def test_leaving_a_stream_cancels_the_request(client: openai.OpenAI, scripted: Server) -> None:
    request = GREEDY | {"messages": [{"role": "user", "content": "HANG"}], "stream": True}
    cancelled = scripted.worker.cancelled
    with client.chat.completions.create(**request) as stream:
        first = next(iter(stream))
    name = first.id.removeprefix("chatcmpl-")
    try:
        # Those of earlier tests are passed over.
        while not cancelled.get(timeout=60).startswith(name):
            pass
    except queue.Empty:
        pytest.fail("the worker was never told")


async def test_async_client_streams(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(**GREEDY, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == ANSWER
