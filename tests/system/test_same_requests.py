"""`LLM`, gRPC and HTTP understand a request alike: the same tokens and usage, or the same faults."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import asdict
from typing import Any

import pytest

import spectrie
from spectrie.errors import InvalidArgument
from spectrie.types import Completion, SpeculationOptions, Usage
from tests.system.same_requests import REQUESTS, Request, name_in_process, name_over_http

# Tokens, texts, (finish reason, what stopped it) and counts.
Answers = tuple[
    list[tuple[int, ...]],
    list[str],
    list[tuple[str, str | int | None]],
    tuple[int | None, ...],
]
GOOD = [request for request in REQUESTS if not request.fields]
BAD = [request for request in REQUESTS if request.fields]
STRUCTURED = {"json_schema": "json", "regex": "regex", "grammar": "grammar", "choice": "choice"}


def in_process(llm: spectrie.LLM, options: dict[str, Any]) -> Answers:
    call: Any = llm.chat if "messages" in options else llm.generate
    return answers_of(list(call(**options).choices))


def over_grpc(client: spectrie.Client, options: dict[str, Any]) -> Answers:
    if "n" in options:
        return answers_of(list(client.generate_choices(**options)))
    call: Any = client.chat if "messages" in options else client.generate
    return answers_of([call(**options)])


def answers_of(choices: list[Completion]) -> Answers:
    return (
        [choice.token_ids for choice in choices],
        [choice.text for choice in choices],
        [(choice.finish_reason, choice.stop_text or choice.stop_token_id) for choice in choices],
        (
            choices[0].usage.prompt_tokens,
            total(choices, "completion_tokens"),
            total(choices, "accepted_prediction_tokens"),
            total(choices, "rejected_prediction_tokens"),
        ),
    )


def total(choices: list[Completion], count: str) -> int:
    usages: list[Usage] = [choice.usage for choice in choices]
    return sum(getattr(usage, count) or 0 for usage in usages)


def over_http(server: dict[str, Any], options: dict[str, Any]) -> Answers:
    chat = "messages" in options
    path = "/v1/chat/completions" if chat else "/v1/completions"
    answer = post(f"http://{server['http']}{path}", body_of(options, chat=chat))
    details = answer["usage"].get("completion_tokens_details") or {}
    return (
        [tuple(choice["token_ids"]) for choice in answer["choices"]],
        [choice["message"]["content"] if chat else choice["text"] for choice in answer["choices"]],
        [(choice["finish_reason"], choice.get("stop_reason")) for choice in answer["choices"]],
        (
            answer["usage"]["prompt_tokens"],
            answer["usage"]["completion_tokens"],
            details.get("accepted_prediction_tokens") or 0,
            details.get("rejected_prediction_tokens") or 0,
        ),
    )


def body_of(options: dict[str, Any], *, chat: bool) -> dict[str, Any]:
    """The options as OpenAI's clients and ours send them."""
    body: dict[str, Any] = {"model": "tiny", "return_token_ids": True}
    for name, value in options.items():
        if name in STRUCTURED:
            body["structured_outputs"] = {STRUCTURED[name]: value}
        elif name == "prediction":
            body[name] = {"type": "content", "content": value}
        elif name == "speculation" and isinstance(value, SpeculationOptions):
            body[name] = {key: part for key, part in asdict(value).items() if part is not None}
        elif name == "speculation":
            body[name] = {"enabled": value}
        elif name == "logprobs" and chat:
            body |= {"logprobs": True, "top_logprobs": value}
        else:
            body[name] = value
    return body


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


@pytest.mark.parametrize("request_", GOOD, ids=lambda request: request.name)
def test_good_requests_give_the_same_answers_and_usage(
    llm: spectrie.LLM, client: spectrie.Client, server: dict[str, Any], request_: Request
) -> None:
    here = in_process(llm, request_.options)
    assert all(here[0])
    assert over_grpc(client, request_.options) == here
    assert over_http(server, request_.options) == here


@pytest.mark.parametrize("request_", BAD, ids=lambda request: request.name)
def test_bad_requests_break_the_same_limits(
    llm: spectrie.LLM, client: spectrie.Client, server: dict[str, Any], request_: Request
) -> None:
    with pytest.raises(InvalidArgument) as here:
        in_process(llm, request_.options)
    with pytest.raises(InvalidArgument) as there:
        over_grpc(client, request_.options)
    with pytest.raises(urllib.error.HTTPError) as refused:
        over_http(server, request_.options)
    with refused.value as response:
        error = json.load(response)["error"]
    wire = {violation.field: violation.description for violation in there.value.field_violations}
    assert set(wire) == set(request_.fields)
    local = {violation.field: violation.description for violation in here.value.field_violations}
    assert local == {name_in_process(field): message for field, message in wire.items()}
    sentences = [f"{name_over_http(field)}: {message}" for field, message in wire.items()]
    assert (error["message"], error["param"]) == (
        "; ".join(sentences),
        name_over_http(next(iter(wire))),
    )


def test_other_members_of_a_message_change_nothing(
    llm: spectrie.LLM, server: dict[str, Any]
) -> None:
    message = {"role": "user", "content": "two one"}
    options: dict[str, Any] = {"max_tokens": 12, "seed": 7}
    plain = in_process(llm, {"messages": [message]} | options)
    named = {"messages": [message | {"name": "ann"}]} | options
    assert in_process(llm, named) == over_http(server, named) == plain


def test_two_constraints_at_once_are_refused(
    llm: spectrie.LLM, client: spectrie.Client, server: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"prompt": "one", "regex": "a", "grammar": 'start: "a"'}
    with pytest.raises(InvalidArgument, match="given together with regex"):
        in_process(llm, options)
    with pytest.raises(InvalidArgument, match=r"at most one of .*regex"):
        over_grpc(client, options)
    constraints = {"regex": "a", "grammar": 'start: "a"'}
    body = {"model": "tiny", "prompt": "one", "structured_outputs": constraints}
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(f"http://{server['http']}/v1/completions", body)
    with refused.value as response:
        assert "given 2 constraints" in json.load(response)["error"]["message"]


def test_absent_max_tokens_is_the_rest_of_the_context_but_for_openais_completions(
    llm: spectrie.LLM, client: spectrie.Client, server: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"seed": 3, "ignore_eos": True}
    prompt = {"prompt_token_ids": [5, 6] * (llm.max_context // 2 - 10)}
    here = in_process(llm, prompt | options)
    assert len(here[0][0]) == 20
    assert over_grpc(client, prompt | options) == here
    assert over_http(server, prompt | options)[0] == [here[0][0][:16]]
    chat = {"messages": [{"role": "user", "content": "x" * (llm.max_context - 60)}]}
    here = in_process(llm, chat | options)
    assert over_grpc(client, chat | options) == over_http(server, chat | options) == here


def test_there_are_sixty_requests_and_more() -> None:
    assert len(GOOD) >= 30 and len(BAD) >= 30
