"""Converts prompts and options to wire requests; a wrong type is refused by field and value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as ProtoMessage

from spectrie._proto import inference_pb2 as pb
from spectrie.errors import FieldViolation, InvalidArgument
from spectrie.options import GenerateOptions, check_names
from spectrie.types import Message, SpeculationOptions

__all__ = ["chat_prompt", "generate_request", "set_ids"]

_STRUCTURED = "json_schema json_object regex grammar choice".split()
_MODES = {
    name.removeprefix("SPECULATION_MODE_").lower(): pb.SpeculationMode.Value(name)
    for name, number in pb.SpeculationMode.items()
    if number
}
_INTEGERS = {
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}


def _options(message: type[ProtoMessage]) -> tuple[str, ...]:
    """The options that are single numbers, flags or texts of a message, under the same name."""
    fields = message.DESCRIPTOR.fields
    single = (field.name for field in fields if field.has_presence and field.message_type is None)
    return tuple(name for name in single if name in GenerateOptions.__annotations__)


_TOP = _options(pb.GenerateRequest)
_SAMPLING = _options(pb.Sampling)
_STOPPING = _options(pb.Stopping)
_OUTPUT = _options(pb.Output)


def generate_request(
    prompt: str | None,
    prompt_token_ids: Sequence[int] | None,
    messages: Sequence[Message] | None,
    options: GenerateOptions,
    n: int | None = None,
) -> pb.GenerateRequest:
    """The request for one prompt, given in exactly one of three forms.

    Raises:
        InvalidArgument: A value has the wrong type, or not exactly one prompt was given.
        TypeError: An option does not exist.
    """
    check_names(options)
    request = pb.GenerateRequest()
    _set_prompt(request, prompt, prompt_token_ids, messages)
    for name in _TOP:
        _set(request, name, options.get(name))
    for name in _SAMPLING:
        _set(request.sampling, name, options.get(name), "sampling.")
    _set(request.sampling, "n", n, "sampling.")
    _set_logit_bias(request.sampling, options.get("logit_bias"))
    for name in _STOPPING:
        _set(request.stopping, name, options.get(name), "stopping.")
    stop = options.get("stop")
    texts = [stop] if isinstance(stop, str) else stop or ()
    _set_texts(request.stopping.stop, texts, "stopping.stop")
    _set_texts(request.sampling.bad_words, options.get("bad_words") or (), "sampling.bad_words")
    ids = options.get("stop_token_ids")
    set_ids(request.stopping.stop_token_ids, ids or (), "stopping.stop_token_ids")
    for name in _OUTPUT:
        _set(request.output, name, options.get(name), "output.")
    _set_structured(request, options)
    _set_speculation(request.speculation, options.get("speculation"))
    _set_prediction(request.speculation, options.get("prediction"))
    return request


def chat_prompt(messages: Sequence[Message]) -> pb.ChatPrompt:
    """The chat prompt of `messages`, each a mapping of `role` and `content`."""
    chat = pb.ChatPrompt()
    if isinstance(messages, str | bytes | Mapping):
        raise refused("chat.messages", messages, "a list of {'role': ..., 'content': ...}")
    for i, message in enumerate(messages):
        extra = set(message) - {"role", "content"} if isinstance(message, Mapping) else {"?"}
        if extra or not {"role", "content"} <= set(message):
            raise refused(f"chat.messages[{i}]", message, "a mapping of 'role' and 'content'")
        added = chat.messages.add()
        _set(added, "role", message["role"], f"chat.messages[{i}].")
        _set(added, "content", message["content"], f"chat.messages[{i}].")
    return chat


def set_ids(target: Any, ids: Iterable[int], field: str) -> None:
    """Appends token ids to a repeated field; an error names the first invalid one."""
    if isinstance(ids, str | bytes):
        raise refused(field, ids, "a list of token ids")
    for i, token in enumerate(ids):
        if isinstance(token, bool):
            raise refused(f"{field}[{i}]", token, "a token id")
        try:
            target.append(token)
        except (TypeError, ValueError):
            raise refused(
                f"{field}[{i}]", token, "a token id (a whole number, not below 0)"
            ) from None


def refused(field: str, given: object, allowed: str) -> InvalidArgument:
    """The error for a field: the given value (shortened) and what is allowed."""
    shown = repr(given)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    description = f"{shown} is not allowed: give {allowed}"
    return InvalidArgument(
        f"{field}: {description}", field_violations=(FieldViolation(field, description),)
    )


def _set_prompt(
    request: pb.GenerateRequest,
    prompt: str | None,
    prompt_token_ids: Sequence[int] | None,
    messages: Sequence[Message] | None,
) -> None:
    if sum(given is not None for given in (prompt, prompt_token_ids, messages)) != 1:
        description = "give exactly one of prompt, prompt_token_ids and messages"
        raise InvalidArgument(
            f"prompt: {description}", field_violations=(FieldViolation("prompt", description),)
        )
    if prompt is not None:
        _set(request, "text", prompt)
    elif prompt_token_ids is not None:
        request.token_ids.SetInParent()
        set_ids(request.token_ids.ids, prompt_token_ids, "token_ids.ids")
    elif messages is not None:
        request.chat.CopyFrom(chat_prompt(messages))


def _set_logit_bias(sampling: pb.Sampling, bias: Mapping[int, float] | None) -> None:
    for token, value in (bias or {}).items():
        try:
            sampling.logit_bias[token] = value
        except (TypeError, ValueError):
            raise refused("sampling.logit_bias", {token: value}, "numbers by token id") from None


def _set_texts(target: Any, texts: Sequence[str], field: str) -> None:
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise refused(field, texts, "a list of texts")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise refused(f"{field}[{i}]", text, "a text")
    target.extend(texts)


def _set_structured(request: pb.GenerateRequest, options: GenerateOptions) -> None:
    """Sets the output constraint from the one option that gives it."""
    wanted = {name: options.get(name) for name in _STRUCTURED}
    given = {n: value for n, value in wanted.items() if value is not None and value is not False}
    if len(given) > 1:
        raise refused("structured", list(given), f"at most one of {', '.join(_STRUCTURED)}")
    for name, value in given.items():
        if name == "choice":
            if not value:
                raise refused("structured.choice", value, "at least one text")
            _set_texts(request.structured.choice.texts, cast(Any, value), "structured.choice")
        elif name == "json_schema" and isinstance(value, Mapping):
            try:
                request.structured.json_schema = json.dumps(value, ensure_ascii=False)
            except (TypeError, ValueError) as error:
                raise refused("structured.json_schema", value, f"JSON ({error})") from error
        else:
            _set(request.structured, name, value, "structured.")


def _set_speculation(speculation: pb.Speculation, given: bool | SpeculationOptions | None) -> None:
    if given is None:
        return
    if isinstance(given, bool):
        given = SpeculationOptions(enabled=given)
    if not isinstance(given, SpeculationOptions):
        raise refused("speculation", given, "True, False or SpeculationOptions")
    _set(speculation, "enabled", given.enabled, "speculation.")
    _set(speculation, "max_draft_tokens", given.max_draft_tokens, "speculation.")
    if given.mode is not None:
        if given.mode not in _MODES:
            raise refused("speculation.mode", given.mode, f"one of {', '.join(_MODES)}")
        speculation.mode = _MODES[given.mode]
    if not given.learn:
        speculation.learn = False


def _set_prediction(speculation: pb.Speculation, given: str | Path | Sequence[int] | None) -> None:
    if given is None:
        return
    if isinstance(given, Path):
        try:
            given = given.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise refused(
                "speculation.prediction", str(given), f"a readable text file ({error})"
            ) from error
    if isinstance(given, str):
        speculation.prediction.text = given
        return
    speculation.prediction.token_ids.SetInParent()
    set_ids(speculation.prediction.token_ids.ids, given, "speculation.prediction.token_ids")


def _set(message: ProtoMessage, name: str, value: object, prefix: str = "") -> None:
    """Sets a scalar field unless `value` is None."""
    if value is None:
        return
    field: Any = message.DESCRIPTOR.fields_by_name[name]
    is_bool_field = field.type == FieldDescriptor.TYPE_BOOL
    if isinstance(value, bool) != is_bool_field:
        raise refused(prefix + name, value, _allowed(field))
    try:
        setattr(message, name, value)
    except (TypeError, ValueError):
        raise refused(prefix + name, value, _allowed(field)) from None


def _allowed(field: Any) -> str:
    if field.type in _INTEGERS:
        low, high = _INTEGERS[field.type]
        return f"a whole number from {low} to {high}"
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return "a number"
    return "True or False" if field.type == FieldDescriptor.TYPE_BOOL else "a text"
