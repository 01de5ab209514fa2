"""Sixty requests, good and bad, in the words of `LLM`, and what the other APIs call their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectrie.types import SpeculationOptions

__all__ = ["REQUESTS", "Request", "name_in_process", "name_over_http"]

PROMPT = "one two three one two"
LONG = "x" * 300


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        name: Its subject.
        options: Prompt and options, as `LLM.generate` and `LLM.chat` take them.
        fields: The fields at fault, as the proto file names them; none in a good request.
    """

    name: str
    options: dict[str, Any]
    fields: tuple[str, ...] = ()


# The name of a field in process and over HTTP, for those that are not the last part of its own.
_NAMES: dict[str, tuple[str, str]] = {
    "text": ("prompt", "prompt"),
    "token_ids.ids": ("prompt_token_ids", "prompt_token_ids"),
    "chat.messages": ("messages", "messages"),
    "speculation.prediction.text": ("prediction", "prediction.content"),
    "speculation.max_draft_tokens": ("speculation.max_draft_tokens",) * 2,
    "structured.json_schema": ("json_schema", "structured_outputs.json"),
    "structured.regex": ("regex", "structured_outputs.regex"),
    "structured.grammar": ("grammar", "structured_outputs.grammar"),
    "structured.choice.texts": ("choice", "structured_outputs.choice"),
}


def _named(field: str, column: int) -> str:
    for name, names in _NAMES.items():
        rest = field.removeprefix(name)
        if rest != field and (not rest or rest[0] == "["):
            return names[column] + rest
    return field.rpartition(".")[2]


def name_in_process(field: str) -> str:
    """What `LLM` calls a field of the proto file."""
    return _named(field, 0)


def name_over_http(field: str) -> str:
    """What the HTTP API calls a field of the proto file."""
    return _named(field, 1)


def _good(name: str, **options: Any) -> Request:
    given = {"prompt", "prompt_token_ids", "messages"} & set(options)
    prompt = {} if given else {"prompt": PROMPT}
    return Request(name, {"max_tokens": 12, "seed": 7} | prompt | options)


def _bad(*fields: str, **options: Any) -> Request:
    given = {"prompt", "prompt_token_ids", "messages"} & set(options)
    prompt = {} if given else {"prompt": PROMPT}
    return Request(" and ".join(fields), prompt | options, fields)


_CHAT = [{"role": "user", "content": "two one"}]
_GOOD = [
    _good("greedy", temperature=0.0),
    _good("sampled"),
    _good("nucleus", top_p=0.6),
    _good("few", top_k=5),
    _good("relative", min_p=0.2),
    _good("typical", typical_p=0.5),
    _good("every filter", temperature=0.7, top_p=0.9, top_k=40, min_p=0.01, typical_p=0.9),
    _good("frequency", frequency_penalty=1.5),
    _good("presence", presence_penalty=-1.5),
    _good("repetition", repetition_penalty=1.3),
    _good("biased", logit_bias={7: 4.0, 9: -100.0}),
    _good("banned texts", bad_words=["a", "the", "é"]),
    _good("several answers", n=3),
    _good("most answers", n=8, max_tokens=4),
    _good("largest seed", seed=2**64 - 1),
    _good("one token", max_tokens=1),
    _good("no end before", min_tokens=10, max_tokens=10),
    _good("stop text", stop=["e", "th"], max_tokens=40),
    _good("stop texts that overlap", stop=["on", "one", " t"], max_tokens=40),
    _good("stop token", stop_token_ids=[7, 8, 9, 10, 11], max_tokens=40),
    _good("beyond the end", ignore_eos=True, max_tokens=30),
    _good("special tokens", skip_special_tokens=False, max_tokens=30),
    _good("prediction", prediction="one two three one two three", max_tokens=20),
    _good("no drafts", speculation=False),
    _good("few drafts", speculation=SpeculationOptions(max_draft_tokens=2, learn=False)),
    _good("fixed drafts", speculation=SpeculationOptions(mode="bfs")),
    _good("expression", regex="[a-f]{4,9}", max_tokens=20),
    _good("schema", json_schema={"type": "object", "maxProperties": 1}, max_tokens=30),
    _good("one of texts", choice=["yes", "no"], max_tokens=20),
    _good("token ids", prompt_token_ids=[5, 9, 11, 300]),
    _good("chat", messages=_CHAT),
    _good("several turns", messages=[*_CHAT, {"role": "assistant", "content": "a"}, *_CHAT]),
    _good("log-probabilities", logprobs=3, prompt_logprobs=1),
    _good("priority", priority=5, namespace=None),
]
_BAD = [
    _bad("sampling.temperature", temperature=-1),
    _bad("sampling.temperature", temperature=101),
    _bad("sampling.top_p", top_p=0),
    _bad("sampling.min_p", min_p=1.5),
    _bad("sampling.typical_p", typical_p=0),
    _bad("sampling.frequency_penalty", frequency_penalty=2.5),
    _bad("sampling.presence_penalty", presence_penalty=-2.5),
    _bad("sampling.repetition_penalty", repetition_penalty=0),
    _bad("sampling.n", n=9),
    _bad("sampling.logit_bias[7]", logit_bias={7: 101}),
    _bad("sampling.logit_bias[7]", "sampling.logit_bias[8]", logit_bias={7: 101, 8: -500}),
    _bad("sampling.logit_bias", logit_bias={352: 1}),
    _bad("sampling.bad_words", bad_words=["a"] * 65),
    _bad("sampling.bad_words[1]", bad_words=["a", ""]),
    _bad("sampling.bad_words[0]", "sampling.bad_words[2]", bad_words=["§" * 40, "a", "¤" * 40]),
    _bad("stopping.max_tokens", max_tokens=0),
    _bad("stopping.max_tokens", max_tokens=100_000),
    _bad("stopping.min_tokens", min_tokens=9, max_tokens=8),
    _bad("stopping.stop", stop=["x"] * 17),
    _bad("stopping.stop[0]", "stopping.stop[1]", stop=["", LONG]),
    _bad("stopping.stop_token_ids[1]", stop_token_ids=[1, 352]),
    _bad("stopping.stop_token_ids", stop_token_ids=[1] * 65),
    _bad("output.prompt_logprobs", prompt_logprobs=21),
    _bad("speculation.max_draft_tokens", speculation=SpeculationOptions(max_draft_tokens=64)),
    _bad("speculation.prediction.text", prediction="one " * 5000),
    _bad("structured.regex", regex="a" * 70_000),
    _bad("structured.choice.texts[1]", choice=["a", ""]),
    _bad("text", prompt=""),
    _bad("prompt", prompt="x" * 5000),
    _bad("token_ids.ids[1]", prompt_token_ids=[5, 352]),
    _bad("namespace", namespace="a b"),
    _bad(
        "sampling.temperature",
        "sampling.top_p",
        "stopping.max_tokens",
        "stopping.stop_token_ids[0]",
        temperature=-1,
        top_p=7,
        max_tokens=0,
        stop_token_ids=[400],
    ),
]
REQUESTS = [*_GOOD, *_BAD]
