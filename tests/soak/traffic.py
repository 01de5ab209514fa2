"""Random traffic on a model in process: callers that ask, lose patience, and change their minds."""

from __future__ import annotations

import collections
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from spectrie.errors import Cancelled, DeadlineExceeded, SpectrieError, StreamInterrupted
from spectrie.llm import LLM
from spectrie.types import SpeculationOptions

__all__ = ["Tally", "Traffic"]

CALLERS = 24
PATIENCE_S = 60.0
_WORDS = "def return import class for in if else while with self None True False and or not".split()
_BEGINNINGS = ("def print the class ", "import self with one word for all that follow ", "")


@dataclass(slots=True)
class Tally:
    """What became of the requests.

    Attributes:
        ends: Requests by how they ended: `answered`, `cancelled`, `late`, `refused`.
        wrong: Answers that were not those of the same request alone; must stay empty.
        failures: Unexpected errors; must stay empty.
        cached_tokens: Prompt tokens found in the cache.
        accepted_tokens: Draft tokens that became output.
    """

    ends: collections.Counter[str] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    cached_tokens: int = 0
    accepted_tokens: int = 0


class Traffic:
    """Callers on threads of their own for a while.

    Args:
        llm: The model; its few pages force preemption.
        alone: The same model without speculation or other requests, for answers to compare with.
    """

    def __init__(self, llm: LLM, alone: LLM) -> None:
        self._llm = llm
        self._alone = alone
        self._alone_lock = threading.Lock()
        self._lock = threading.Lock()
        self.tally = Tally()

    def run(self, seconds: float) -> None:
        """Sends requests for so long, and waits until all have ended."""
        end = time.monotonic() + seconds
        callers = [
            threading.Thread(target=self._call, args=(random.Random(number), end), daemon=True)
            for number in range(CALLERS)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(seconds + PATIENCE_S)
            assert not caller.is_alive(), "a request did not end"

    def _call(self, draw: random.Random, end: float) -> None:
        while time.monotonic() < end:
            time.sleep(draw.choice((0.0, 0.0, 0.005, 0.05)))
            prompt, options = _request(draw)
            try:
                how = self._ask(draw, prompt, options)
            except (Cancelled, StreamInterrupted):
                how = "cancelled"
            except DeadlineExceeded:
                how = "late"
            except SpectrieError as error:
                how = "failed"
                with self._lock:
                    self.tally.failures.append(f"{type(error).__name__}: {error}")
            with self._lock:
                self.tally.ends[how] += 1

    def _ask(self, draw: random.Random, prompt: str, options: dict[str, Any]) -> str:
        if draw.random() < 0.15:
            # Comes for a few pieces and leaves.
            with self._llm.stream(prompt, **options) as stream:
                for _, _ in zip(range(draw.randrange(4)), stream, strict=False):
                    pass
            return "left"
        if draw.random() < 0.1:
            options["timeout"] = draw.choice((0.001, 0.02, 0.1))
        n = draw.choice((1, 1, 1, 4))
        answer = self._llm.generate(prompt, n=n, **options)
        expected = None
        if draw.random() < 0.1:
            with self._alone_lock:
                expected = self._alone.generate(prompt, n=n, **options | {"timeout": None})
        with self._lock:
            for choice in answer.choices:
                self.tally.cached_tokens += choice.usage.cached_tokens
                self.tally.accepted_tokens += choice.speculation.accepted_tokens
            if expected is not None:
                self.tally.ends["compared"] += 1
                ours = [choice.token_ids for choice in answer.choices]
                theirs = [choice.token_ids for choice in expected.choices]
                if ours != theirs:
                    self.tally.wrong.append(f"{prompt!r} {options}: {ours} instead of {theirs}")
        return "answered"


def _request(draw: random.Random) -> tuple[str, dict[str, Any]]:
    words = " ".join(draw.choices(_WORDS, k=draw.choice((1, 8, 40, 120))))
    options: dict[str, Any] = {
        "max_tokens": draw.choice((1, 8, 32, 96)),
        "temperature": draw.choice((0.0, 0.0, 0.8, 1.3)),
        "seed": draw.randrange(8),
        "priority": draw.randrange(3),
        "namespace": draw.choice(("a", "b", "c")),
        "ignore_eos": draw.random() < 0.7,
        "speculation": SpeculationOptions(learn=draw.random() < 0.8),
    }
    kind = draw.randrange(8)
    if kind == 0:
        options |= {"frequency_penalty": 0.5, "presence_penalty": 0.2, "repetition_penalty": 1.2}
    elif kind == 1:
        options |= {"logprobs": 3, "prompt_logprobs": 1, "top_p": 0.9}
    elif kind == 2:
        options |= {"regex": "[a-z ]{1,60}", "ignore_eos": False}
    elif kind == 3:
        options |= {"bad_words": ["def", "class"], "min_tokens": 1, "typical_p": 0.9}
    elif kind == 4:
        options["prediction"] = words
    return draw.choice(_BEGINNINGS) + words, options
