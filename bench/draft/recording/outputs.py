"""What the real model answered, with its own likeliest tokens at every position."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.draft.recording.tasks import Split, Task, tasks
from bench.draft.trace import TOP_K, Request

if TYPE_CHECKING:
    from pathlib import Path

    from spectrie import LLM
    from spectrie.options import GenerateOptions

__all__ = ["Recorder"]

_Answer = tuple[list[int], list[int], list[int] | None]
"""Ids of a prompt, of its answer, and of what the client said the answer would resemble."""

_BATCH = 8
_LEAST_PREFIX = 64


class Recorder:
    """Answers tasks in float32 and notes the top-8 after every token.

    Args:
        folder: The model's folder in the Hugging Face layout.
    """

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        from spectrie import LLM

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._torch = torch
        self._llm: LLM = LLM(folder, dtype="float32")
        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def record(self, family: str, split: Split) -> list[Request]:
        """The requests of one family, in the order of its tasks."""
        chosen = tasks(family, split)
        answers: list[_Answer] = []
        for first in range(0, len(chosen), _BATCH):
            answers += self._chats(chosen[first : first + _BATCH], first)
            print(f"  {family} {split}: {first + _BATCH}", file=sys.stderr, flush=True)
        texts = [prompt + output for prompt, output, _ in answers]
        return [
            Request(prompt, output, prediction, topk=topk)
            for (prompt, output, prediction), topk in zip(answers, self._top(texts), strict=True)
        ]

    def close(self) -> None:
        """Stops the model."""
        self._llm.close()

    def _chats(self, batch: list[Task], first: int) -> list[_Answer]:
        """Answers each task, and what is said after it; `first` numbers the batch's first task."""
        answers = self._answer(batch, first)
        if not any(task.follow_ups for task in batch):
            return answers
        found: list[_Answer] = []
        for turn in range(max(len(task.follow_ups) for task in batch)):
            batch = [
                replace(
                    task,
                    messages=(
                        *(task.messages or ()),
                        {"role": "assistant", "content": self._llm.tokenizer.decode(output)},
                        {"role": "user", "content": task.follow_ups[turn]},
                    ),
                )
                for task, (_, output, _) in zip(batch, answers, strict=True)
            ]
            answers = self._answer(batch, first)
            found += answers
        return found

    def _answer(self, batch: list[Task], first: int) -> list[_Answer]:
        tokenizer = self._llm.tokenizer
        streams = []
        for number, task in enumerate(batch, first):
            text = task.text or tokenizer.apply_chat_template(list(task.messages or ()))
            ids = list(tokenizer.encode(text))
            options: GenerateOptions = {
                "max_tokens": task.max_tokens,
                "temperature": task.temperature,
            }
            if task.temperature:
                options["seed"] = number
            prediction = None
            if task.prediction is not None:
                options["prediction"] = task.prediction
                prediction = list(tokenizer.encode(task.prediction))
            streams.append((ids, self._llm.stream(prompt_token_ids=ids, **options), prediction))
        return [
            (ids, list(stream.final().token_ids), prediction) for ids, stream, prediction in streams
        ]

    def _top(self, texts: list[list[int]]) -> Iterator[list[tuple[list[int], list[float]]]]:
        """Per text, the top-8 ids and probabilities after each of its tokens."""
        torch = self._torch
        prefix = _common_prefix(texts)
        if len(prefix) < _LEAST_PREFIX:
            prefix = []
        with torch.inference_mode():
            start, cache = [], None
            if prefix:
                reply = self._model(torch.tensor([prefix]), use_cache=True)
                start, cache = self._entries(reply.logits[0]), reply.past_key_values
            for text in texts:
                rest = torch.tensor([text[len(prefix) :]])
                reply = self._model(rest, past_key_values=copy.deepcopy(cache), use_cache=True)
                yield start + self._entries(reply.logits[0])

    def _entries(self, logits: Any) -> list[tuple[list[int], list[float]]]:
        top = self._torch.softmax(logits, dim=-1).topk(TOP_K, dim=-1)
        return [
            (ids, [round(value, 4) for value in values])
            for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]


def _common_prefix(texts: list[list[int]]) -> list[int]:
    prefix = texts[0]
    for text in texts[1:]:
        length = next(
            (at for at, (a, b) in enumerate(zip(prefix, text, strict=False)) if a != b),
            min(len(prefix), len(text)),
        )
        prefix = prefix[:length]
    return prefix
