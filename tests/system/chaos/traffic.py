"""Sixteen streams that never stop asking, and what each is to hear."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from spectrie.client import Client
from spectrie.types import Completion

__all__ = ["NUM_STREAMS", "Traffic", "asks", "reference"]

NUM_STREAMS = 16
WAIT_S = 170.0
_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 60},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 6},
    },
    "required": ["name", "tags"],
}


def asks(max_tokens: int) -> list[dict[str, Any]]:
    """Prompts and options of the streams: sampling, grammars, penalties, predictions."""
    kinds: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 0.8, "top_p": 0.9},
        {"temperature": 1.2, "top_k": 20, "min_p": 0.02},
        {"temperature": 0.7, "repetition_penalty": 1.2, "frequency_penalty": 0.4},
        {"temperature": 0.9, "regex": "[a-z ,.]{40,400}"},
        {"temperature": 0.9, "json_schema": _SCHEMA},
        {"temperature": 0.0, "prediction": "The quick brown fox jumps over the lazy dog. " * 4},
    ]
    asked = []
    for index in range(NUM_STREAMS):
        options = dict(kinds[index % len(kinds)])
        if "regex" not in options and "json_schema" not in options:
            options["ignore_eos"] = True
        prompt = f"Story {index}. The quick brown fox jumps over the lazy dog, and then"
        asked.append({"prompt": prompt, "seed": 1000 + index, "max_tokens": max_tokens, **options})
    return asked


def reference(client: Client, asked: list[dict[str, Any]]) -> list[Completion]:
    """What an undisturbed server answers, all streams at once; gives every third a stop text of its answer."""
    answers = _answers(client, asked)
    for index in range(0, len(asked), 3):
        text, options = answers[index].text, asked[index]
        # From inside the second half of the answer, of several tokens.
        options["stop"] = [text[len(text) * 2 // 3 :][:9]]
    return _answers(client, asked)


def _answers(client: Client, asked: list[dict[str, Any]]) -> list[Completion]:
    found: dict[int, Completion] = {}

    def answer(index: int) -> None:
        found[index] = client.stream(**asked[index], timeout=WAIT_S).final()

    threads = [threading.Thread(target=answer, args=(index,)) for index in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(asked)
    return [found[index] for index in range(len(asked))]


@dataclass
class _Stream:
    """One of the streams.

    Attributes:
        serial: Answers that it began.
        num_tokens: Of the answer that runs.
        received: Tokens of all its answers.
    """

    serial: int = 0
    num_tokens: int = 0
    received: int = 0


class Traffic:
    """Asks again and again, and compares each answer with what it is to be.

    Args:
        client: A client that retries nothing.
        asked: Prompts and options.
        expected: The answers.
    """

    def __init__(
        self, client: Client, asked: list[dict[str, Any]], expected: list[Completion]
    ) -> None:
        self.failures: list[str] = []
        """What went wrong, a line for each answer that failed or differs."""
        self.num_answers = 0
        """Answers that ended as they were to."""
        self.num_resumes = 0
        """How often their client went on with one that was cut."""
        self._client = client
        self._counting = threading.Lock()
        self._ending = threading.Event()
        self._streams = [_Stream() for _ in asked]
        self._threads = [
            threading.Thread(target=self._ask, args=parts, daemon=True)
            for parts in zip(self._streams, asked, expected, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def running(self) -> set[tuple[int, int]]:
        """The answers that have tokens and have not ended: stream and serial number."""
        return {
            (index, stream.serial)
            for index, stream in enumerate(self._streams)
            if stream.num_tokens
        }

    def received(self) -> list[int]:
        """Tokens that each stream has got so far."""
        return [stream.received for stream in self._streams]

    def end(self) -> None:
        """Lets the answers that run end, and asks no more."""
        self._ending.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a stream hangs"

    def _ask(self, stream: _Stream, options: dict[str, Any], expected: Completion) -> None:
        while not self._ending.is_set():
            stream.serial += 1
            try:
                answer = self._answer(stream, options)
            except Exception as error:
                cause = f" from {error.__cause__!r}" if error.__cause__ else ""
                self.failures.append(f"{options['seed']}: {error!r}{cause}")
                # A server that refuses everything is asked less often.
                self._ending.wait(1.0)
                continue
            finally:
                stream.num_tokens = 0
            difference = _difference(answer, expected)
            if difference is None:
                with self._counting:
                    self.num_answers += 1
            else:
                self.failures.append(f"{options['seed']}: {difference}")

    def _answer(self, stream: _Stream, options: dict[str, Any]) -> Completion:
        answers = self._client.stream(**options, timeout=WAIT_S)
        try:
            for delta in answers:
                stream.num_tokens += len(delta.token_ids)
                stream.received += len(delta.token_ids)
            return answers.final()
        finally:
            with self._counting:
                self.num_resumes += answers.num_resumes


def _difference(answer: Completion, expected: Completion) -> str | None:
    for name in ("token_ids", "text", "finish_reason", "stop_text"):
        got, wanted = getattr(answer, name), getattr(expected, name)
        if got != wanted:
            return f"{name} is {got!r}, not {wanted!r}"
    counts = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    wanted_counts = (expected.usage.prompt_tokens, expected.usage.completion_tokens)
    return None if counts == wanted_counts else f"usage is {counts}, not {wanted_counts}"
