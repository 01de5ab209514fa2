"""Requests that must be refused, with what each API must say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc

__all__ = ["BAD_REQUESTS", "BadRequest"]

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@dataclass(frozen=True, slots=True)
class BadRequest:
    """One kind of bad input.

    Attributes:
        name: What is wrong.
        chat: Fields of a chat body, on top of a good one; None where HTTP has no such input.
        param: The field OpenAI's error names.
        message: The whole message of the HTTP API.
        wire: Fields of a `GenerateRequest` as protobuf JSON, on top of a good one; None where
            gRPC has no such input.
        field: The field of the violation over gRPC.
        wire_message: The message over gRPC; `message` with `field` for `param` when absent.
        status: The HTTP status.
        code: OpenAI's code.
        wire_code: The gRPC status code.
    """

    name: str
    chat: dict[str, Any] | None
    param: str | None = None
    message: str = ""
    wire: dict[str, Any] | None = None
    field: str | None = None
    wire_message: str | None = None
    status: int = 400
    code: str | None = "invalid_value"
    wire_code: grpc.StatusCode = INVALID

    @property
    def expected_wire_message(self) -> str:
        """What gRPC must say."""
        if self.wire_message is not None:
            return self.wire_message
        return self.message.replace(self.param or "", self.field or "", 1)


def _limit(
    name: str, part: str, given: Any, message: str, *, wire_name: str | None = None
) -> BadRequest:
    """A field that both APIs have and that breaks its limit."""
    camel = wire_name or name
    return BadRequest(
        name=f"{name} {given!r:.20}",
        chat={name: given},
        param=name,
        message=f"{name}: {message}",
        wire={part: {camel: given}},
        field=f"{part}.{camel}",
    )


BAD_REQUESTS = [
    _limit("temperature", "sampling", -0.5, "given -0.5; allowed: 0 to 100"),
    _limit("temperature", "sampling", 101, "given 101; allowed: 0 to 100"),
    _limit("top_p", "sampling", 0, "given 0; allowed: above 0, up to 1"),
    _limit("top_p", "sampling", 1.5, "given 1.5; allowed: above 0, up to 1"),
    _limit("min_p", "sampling", 2, "given 2; allowed: 0 to 1"),
    _limit("n", "sampling", 0, "given 0; allowed: 1 to 8"),
    _limit("n", "sampling", 9, "given 9; allowed: 1 to 8"),
    _limit("frequency_penalty", "sampling", 3, "given 3; allowed: -2 to 2"),
    _limit("presence_penalty", "sampling", -3, "given -3; allowed: -2 to 2"),
    _limit("repetition_penalty", "sampling", 0, "given 0; allowed: above 0, up to 10"),
    _limit("typical_p", "sampling", 1.5, "given 1.5; allowed: above 0, up to 1"),
    _limit("bad_words", "sampling", ["x"] * 65, "given 65 texts; allowed: up to 64"),
    _limit("max_tokens", "stopping", 0, "given 0; allowed: 1 or more"),
    _limit("stop", "stopping", ["x"] * 17, "given 17 texts; allowed: up to 16"),
    BadRequest(
        name="logit_bias out of range",
        chat={"logit_bias": {"7": 101}},
        param="logit_bias[7]",
        message="logit_bias[7]: given 101; allowed: -100 to 100",
        wire={"sampling": {"logit_bias": {"7": 101}}},
        field="sampling.logit_bias[7]",
    ),
    BadRequest(
        name="logit_bias of a token outside the vocabulary",
        chat={"logit_bias": {"257": 1}},
        param="logit_bias",
        message="logit_bias: given token id 257; allowed: 0 to 256",
        wire={"sampling": {"logit_bias": {"257": 1}}},
        field="sampling.logit_bias",
    ),
    BadRequest(
        name="logit_bias with too many entries",
        chat={"logit_bias": {str(token): 1 for token in range(1025)}},
        param="logit_bias",
        message="logit_bias: given 1025 entries; allowed: up to 1024; "
        "logit_bias: given token id 257; allowed: 0 to 256",
        wire={"sampling": {"logit_bias": {str(token): 1 for token in range(1025)}}},
        field="sampling.logit_bias",
        wire_message="sampling.logit_bias: given 1025 entries; allowed: up to 1024; "
        "sampling.logit_bias: given token id 257; allowed: 0 to 256",
    ),
    BadRequest(
        name="stop text too long",
        chat={"stop": ["ok", "x" * 257]},
        param="stop[1]",
        message="stop[1]: given 257 bytes; allowed: 1 to 256",
        wire={"stopping": {"stop": ["ok", "x" * 257]}},
        field="stopping.stop[1]",
    ),
    BadRequest(
        name="stop text empty",
        chat={"stop": ""},
        param="stop[0]",
        message="stop[0]: given 0 bytes; allowed: 1 to 256",
        wire={"stopping": {"stop": [""]}},
        field="stopping.stop[0]",
    ),
    BadRequest(
        name="stop token outside the vocabulary",
        chat={"stop_token_ids": [3, 4_000_000_000]},
        param="stop_token_ids[1]",
        message="stop_token_ids[1]: given token id 4000000000; allowed: 0 to 256",
        wire={"stopping": {"stop_token_ids": [3, 4_000_000_000]}},
        field="stopping.stop_token_ids[1]",
    ),
    BadRequest(
        name="min_tokens above max_tokens",
        chat={"min_tokens": 9, "max_tokens": 5},
        param="min_tokens",
        message="min_tokens: given 9; allowed: up to max_tokens (5)",
        wire={"stopping": {"min_tokens": 9, "max_tokens": 5}},
        field="stopping.min_tokens",
    ),
    BadRequest(
        name="prompt token outside the vocabulary",
        chat={"messages": [], "prompt_token_ids": [1, 257]},
        param="prompt_token_ids[1]",
        message="prompt_token_ids[1]: given token id 257; allowed: 0 to 256",
        wire={"token_ids": {"ids": [1, 257]}},
        field="token_ids.ids[1]",
    ),
    BadRequest(
        name="empty list of prompt tokens",
        chat={"messages": [], "prompt_token_ids": []},
        param="prompt_token_ids",
        message="prompt_token_ids: given 0 ids; allowed: 1 or more",
        wire={"token_ids": {"ids": []}},
        field="token_ids.ids",
    ),
    BadRequest(
        name="too many draft tokens",
        chat={"speculation": {"max_draft_tokens": 64}},
        param="speculation.max_draft_tokens",
        message="speculation.max_draft_tokens: given 64; allowed: 0 to 63",
        wire={"speculation": {"max_draft_tokens": 64}},
        field="speculation.max_draft_tokens",
    ),
    BadRequest(
        name="namespace where clients may not choose",
        chat={"namespace": "other"},
        param="namespace",
        message="naming a namespace is not allowed, "
        "the server runs without --allow-client-namespaces",
        status=403,
        code=None,
        wire={"namespace": "other"},
        field="namespace",
        wire_message="naming a namespace is not allowed, "
        "the server runs without --allow-client-namespaces",
        wire_code=grpc.StatusCode.PERMISSION_DENIED,
    ),
    BadRequest(
        name="request id with a blank",
        chat={"request_id": "a b"},
        param="request_id",
        message="request_id: given characters that are not printable ascii; allowed: ! to ~",
        wire={"request_id": "a b"},
        field="request_id",
    ),
    BadRequest(
        name="unknown model",
        chat={"model": "gpt-9"},
        param="model",
        message='model "gpt-9" is not served; allowed: scripted',
        status=404,
        code="model_not_found",
        wire={"model": "gpt-9"},
        wire_message='model "gpt-9" is not served; allowed: scripted',
        wire_code=grpc.StatusCode.NOT_FOUND,
    ),
    BadRequest(
        name="answer longer than the context",
        chat={"max_tokens": 5000},
        param="max_tokens",
        message="max_tokens: given 5000 after a prompt of 23 tokens; allowed: 1 to 2025 "
        "(the context is 2048 tokens)",
        code="context_length_exceeded",
        wire={"stopping": {"max_tokens": 5000}},
        field="stopping.max_tokens",
        wire_message="given 5000 after a prompt of 5 tokens; allowed: 1 to 2043 "
        "(the context is 2048 tokens)",
    ),
    BadRequest(
        name="two fields at once",
        chat={"top_p": 7, "n": 70},
        param="top_p",
        message="top_p: given 7; allowed: above 0, up to 1; n: given 70; allowed: 1 to 8",
        wire={"sampling": {"top_p": 7, "n": 70}},
        field="sampling.top_p",
        wire_message="sampling.top_p: given 7; allowed: above 0, up to 1; "
        "sampling.n: given 70; allowed: 1 to 8",
    ),
    BadRequest(
        name="no prompt",
        chat={"messages": None},
        param="messages",
        message="messages is required: expected a list with at least one message",
        wire={"text": None},
        field="prompt",
        wire_message="prompt: required, give one of text, token_ids and chat",
    ),
    BadRequest(
        name="string for a number",
        chat={"temperature": "hot"},
        param="temperature",
        message='temperature: given the string "hot"; allowed: a number from 0 to 100',
    ),
    BadRequest(
        name="fraction for an integer",
        chat={"max_tokens": 5.0},
        param="max_tokens",
        message="max_tokens: given 5.0; allowed: an integer, 1 or more",
    ),
    BadRequest(
        name="image part",
        chat={"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        param="messages[0].content[0].type",
        message='messages[0].content[0].type: given "image_url"; allowed: "text"',
        code="unsupported_value",
    ),
    BadRequest(
        name="tools",
        chat={"tools": [{"type": "function"}]},
        param="tools",
        message="tools: given a list of 1, tools are not supported: "
        "leave it out or send an empty list",
        code="unsupported_value",
    ),
    BadRequest(
        name="log probabilities of too many tokens",
        chat={"logprobs": True, "top_logprobs": 21},
        param="top_logprobs",
        message="top_logprobs: given 21; allowed: 0 to 20",
        wire={"output": {"logprobs": 21}},
        field="output.logprobs",
    ),
    BadRequest(
        name="alternatives without log probabilities",
        chat={"top_logprobs": 3},
        param="top_logprobs",
        message="top_logprobs: given 3 without logprobs; allowed: with logprobs true",
    ),
    BadRequest(
        name="schema that no worker compiles",
        chat={"structured_outputs": {"json": {"title": "INVALID"}}},
        message="the script cannot compile it",
        wire={"structured": {"json_schema": '{"title":"INVALID"}'}},
    ),
    BadRequest(
        name="choice of nothing",
        chat={"structured_outputs": {"choice": []}},
        param="structured_outputs.choice",
        message="structured_outputs.choice: given 0 texts; allowed: 1 to 1024",
        wire={"structured": {"choice": {"texts": []}}},
        field="structured.choice.texts",
    ),
]
