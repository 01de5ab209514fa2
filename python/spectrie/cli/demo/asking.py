"""Asks one prompt of the demo and prints its answer, each token in the colour of its source."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import groupby

from spectrie.cli.console.terminal import Painter
from spectrie.cli.demo.prompts import DemoPrompt
from spectrie.client import Client
from spectrie.types import Completion, Delta, SpeculationOptions

__all__ = ["Answer", "ask"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion and how quickly its tokens came."""

    completion: Completion
    tokens_per_second: float

    @property
    def essence(self) -> tuple[object, ...]:
        """What must not depend on speculation."""
        completion = self.completion
        return (
            completion.token_ids,
            completion.text,
            completion.finish_reason,
            completion.usage.completion_tokens,
        )


def ask(
    client: Client,
    prompt: DemoPrompt,
    max_tokens: int,
    *,
    enabled: bool,
    painter: Painter,
    title: str,
) -> Answer:
    """Streams an answer to stdout below a title."""
    print(painter.dim(f"--- {title}"), flush=True)
    writer = _Writer(client, painter)
    began = time.monotonic()
    with client.stream(
        **prompt.request,
        max_tokens=max_tokens,
        sources=True,
        # Nothing is learnt: the second run must not profit from having seen the first one's answer.
        speculation=SpeculationOptions(enabled=enabled, learn=False),
    ) as stream:
        for delta in stream:
            writer.write(delta)
        completion = stream.final()
    seconds = completion.timing.decode_ns / 1e9 or time.monotonic() - began
    print("\n", flush=True)
    return Answer(completion, (completion.usage.completion_tokens - 1) / seconds)


class _Writer:
    """Prints the pieces of an answer, each token in the colour of its source."""

    def __init__(self, client: Client, painter: Painter) -> None:
        self._client = client
        self._painter = painter
        self._texts: dict[int, str] = {}

    def write(self, delta: Delta) -> None:
        """Prints one piece."""
        print(self._coloured(delta), end="", flush=True)

    def _coloured(self, delta: Delta) -> str:
        if not self._painter.enabled or len(delta.sources) != len(delta.token_ids):
            return delta.text
        texts = [self._text_of(token) for token in delta.token_ids]
        if "".join(texts) != delta.text:
            # A character of several tokens, or a special one: the piece takes one colour.
            return (
                self._painter.source(delta.text, delta.sources[0]) if delta.sources else delta.text
            )
        pairs = groupby(zip(texts, delta.sources, strict=True), key=lambda pair: pair[1])
        return "".join(
            self._painter.source("".join(text for text, _ in group), source)
            for source, group in pairs
        )

    def _text_of(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = self._client.detokenize([token])
        return self._texts[token]
