"""Reads training data: chats and prompts with or without answers, and text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectrie.errors import ConfigError
from spectrie.training.texts.prompts import Chat
from spectrie.training.texts.samples import Sample
from spectrie.types import Message

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["Data", "read_data"]

_CONTEXT_SHARE = 8
_ROLES = ("system", "user", "assistant")


@dataclass(slots=True)
class Data:
    """What files hold.

    Attributes:
        samples: Texts whose answers are known.
        chats: Chats that wait for an answer.
    """

    samples: list[Sample] = field(default_factory=list)
    chats: list[Chat] = field(default_factory=list)


def read_data(files: Sequence[Path], tokenizer: _core.Tokenizer, *, max_tokens: int) -> Data:
    """Reads files in order.

    Lines of `.jsonl` files are objects: `{"messages": [...]}` with roles system, user and assistant;
    `{"prompt": "...", "answer": "..."}`; or `{"prompt_ids": [...], "output_ids": [...]}`. A chat or prompt
    without an answer becomes one to answer. Any other file is text, of which a head learns to guess every
    token; it is cut into pieces, of which the first eighth is context.

    Args:
        files: What to read.
        tokenizer: The target's.
        max_tokens: Longest sample; longer ones are cut.

    Raises:
        ConfigError: A file cannot be read, or a line is none of these; the message names it.
    """
    reader = _Reader(tokenizer, max_tokens)
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {path}: {error}") from error
        if path.suffix == ".jsonl":
            for number, line in enumerate(text.splitlines(), 1):
                if line.strip():
                    reader.line(line, f"{path}:{number}")
        else:
            reader.text(text, path.name)
    return reader.data


class _Reader:
    def __init__(self, tokenizer: _core.Tokenizer, max_tokens: int) -> None:
        self.data = Data()
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens

    def text(self, text: str, origin: str) -> None:
        ids = self._encode(text)
        for start in range(0, len(ids), self._max_tokens):
            piece = ids[start : start + self._max_tokens]
            first = len(piece) // _CONTEXT_SHARE
            self.data.samples.append(Sample(piece, [(first, len(piece))], origin))

    def line(self, line: str, where: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{where} is not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise ConfigError(f"{where} holds a {type(entry).__name__}, expected an object")
        origin = where.rpartition(":")[0].rpartition("/")[2]
        if "messages" in entry:
            self._chat(_messages(entry["messages"], where), origin)
        elif "prompt_ids" in entry:
            self._pair(_ids(entry, "prompt_ids", where), _ids(entry, "output_ids", where), origin)
        elif isinstance(prompt := entry.get("prompt"), str):
            if isinstance(answer := entry.get("answer"), str):
                self._pair(self._encode(prompt), self._encode(answer), origin)
            else:
                self.data.chats.append(Chat(({"role": "user", "content": prompt},)))
        else:
            raise ConfigError(
                f"{where} has no messages, prompt or prompt_ids; it has: {', '.join(entry) or 'nothing'}"
            )

    def _chat(self, messages: list[Message], origin: str) -> None:
        if messages[-1]["role"] != "assistant":
            self.data.chats.append(Chat(tuple(messages)))
            return
        ids: list[int] = []
        answers: list[tuple[int, int]] = []
        for index, message in enumerate(messages):
            if message["role"] != "assistant" or index == 0:
                continue
            before = self._template(messages[:index], prompt=True)
            ids = self._template(messages[: index + 1], prompt=False)
            # A template may drop or change earlier turns: only what stands where it was is an answer.
            if ids[: len(before)] == before:
                answers = [(start, end) for start, end in answers if end <= len(before)]
                answers.append((len(before), len(ids)))
        self._add(Sample(ids, answers, origin))

    def _template(self, messages: Sequence[Message], *, prompt: bool) -> list[int]:
        return self._encode(
            self._tokenizer.apply_chat_template(list(messages), add_generation_prompt=prompt)
        )

    def _pair(self, prompt: list[int], answer: list[int], origin: str) -> None:
        span = (len(prompt), len(prompt) + len(answer))
        self._add(Sample(prompt + answer, [span], origin))

    def _add(self, sample: Sample) -> None:
        sample = sample.cut(self._max_tokens)
        if sample.num_answer_tokens:
            self.data.samples.append(sample)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text))


def _messages(value: Any, where: str) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{where}: messages is {value!r:.40}, expected a list of messages")
    return list(_each_message(value, where))


def _each_message(value: list[Any], where: str) -> Iterator[Message]:
    for one in value:
        role = one.get("role") if isinstance(one, dict) else None
        content = one.get("content") if isinstance(one, dict) else None
        if role not in _ROLES or not isinstance(content, str):
            raise ConfigError(
                f"{where}: a message is {one!r:.60}, expected a role of {', '.join(_ROLES)} and a text"
            )
        yield {"role": role, "content": content}


def _ids(entry: dict[str, Any], name: str, where: str) -> list[int]:
    value = entry.get(name, [])
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise ConfigError(f"{where}: {name} is {value!r:.40}, expected a list of token ids")
    return list(value)
