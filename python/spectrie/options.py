"""The options of one request, the same for `Client`, `AsyncClient` and `LLM`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from spectrie.types import SpeculationOptions

__all__ = ["GenerateOptions", "check_names"]


class GenerateOptions(TypedDict, total=False):
    """How to continue a prompt. An absent option, or None, leaves the choice to the model's server.

    Attributes:
        max_tokens: Most tokens to emit; the rest of the context by default.
        min_tokens: The answer cannot end before this many tokens; 0 by default.
        temperature: 0 is greedy, at most 100; the model's generation_config.json or 1 by default.
        top_p: Keeps the smallest set of likeliest tokens with this mass, in (0, 1].
        top_k: Keeps the likeliest k tokens; 0 keeps all.
        min_p: Keeps tokens at least this likely relative to the likeliest, in [0, 1].
        typical_p: Keeps the smallest set of tokens with this mass whose information is nearest to
            the expected one, in (0, 1]; 1 keeps all.
        seed: Same seed, same tokens; drawn by default and told in the answer.
        stop: Up to 16 texts that end the answer and are not part of it.
        stop_token_ids: Further tokens that end the answer.
        ignore_eos: Whether to go on after the end-of-sequence token.
        frequency_penalty: Subtracted per earlier occurrence in the answer, in [-2, 2].
        presence_penalty: Subtracted once for tokens that occurred in the answer, in [-2, 2].
        repetition_penalty: Divides positive and multiplies negative logits of tokens of prompt and
            answer, in (0, 10]; 1 changes nothing.
        logit_bias: Added to the logits of single tokens, in [-100, 100], by token id.
        bad_words: Up to 64 texts of at most 128 bytes that the answer's tokens may not spell, each
            as it stands and after a space.
        logprobs: Tell the log-probability of each token, and those of this many likeliest ones, 0
            to 20: the model's own, before bias, penalties and temperature. None tells none.
        prompt_logprobs: The same for the tokens of the prompt; takes a forward of all of them.
        prediction: What the answer will probably resemble, such as the file to be edited: text,
            token ids, or the path of a text file. It makes the answer quicker, never different.
        speculation: True or False, or SpeculationOptions; the server's setting by default.
        sources: Whether the answer says where each token came from; False by default.
        json_schema: The answer is JSON that this schema allows, on one line; the schema as text or
            as a mapping. Of these five options a request may set one; each bounds the schema, regex
            or texts to 64 KiB.
        json_object: Whether the answer is any JSON object.
        regex: The answer as a whole matches this regular expression (syntax of Rust's regex crate).
        grammar: The answer is a text of this Lark grammar (the dialect of llguidance).
        choice: The answer is one of these texts.
        skip_special_tokens: Whether special tokens are left out of the text; True by default.
        namespace: The draft memory to use, where the server lets clients name one.
        priority: Larger runs first; 0 by default.
        model: Name of the served model; the client's or the only one by default.
        request_id: Name of this request in logs and errors; drawn by default.
        timeout: Seconds for the whole request, retries included; the client's by default.
    """

    max_tokens: int | None
    min_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    typical_p: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
    frequency_penalty: float | None
    presence_penalty: float | None
    repetition_penalty: float | None
    logit_bias: Mapping[int, float] | None
    bad_words: Sequence[str] | None
    logprobs: int | None
    prompt_logprobs: int | None
    prediction: str | Path | Sequence[int] | None
    speculation: bool | SpeculationOptions | None
    sources: bool | None
    json_schema: str | Mapping[str, object] | None
    json_object: bool | None
    regex: str | None
    grammar: str | None
    choice: Sequence[str] | None
    skip_special_tokens: bool | None
    namespace: str | None
    priority: int | None
    model: str | None
    request_id: str | None
    timeout: float | None


def check_names(names: Iterable[str]) -> None:
    """Refuses option names that do not exist.

    Raises:
        TypeError: A name is unknown; the message has the nearest known one.
    """
    known = GenerateOptions.__annotations__
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"unknown option {name!r}{hint}")
