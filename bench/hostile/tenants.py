"""What the tenants of one run ask, and when."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.draft.recording.tasks import tasks
from spectrie.errors import SpectrieError

if TYPE_CHECKING:
    from spectrie import LLM, _core
    from spectrie.llm.stream import LocalStream

__all__ = ["NAMES", "Asked", "Hostile", "Neighbours", "SlowReader", "filling"]

NAMES = ("fills", "constrains", "never-reads")
"""The hostile tenants: of prompts that fill the context, of large grammars, of answers that stay unread."""
AT_ONCE = 4
"""Requests that each hostile tenant keeps up."""
UNREAD_TOKENS = 512
STATES = 6_000
ANSWER_TOKENS = 16
SLOW_TOKENS, PIECES_BEHIND = 64, 8
SPECIAL = 50
"""One token id in so many, the first ones, is left out of random prompts: special ones are among them."""
PAUSE_S = 0.01
_FAILED = ("REFUSED", "FAILED")


@dataclass(slots=True)
class Asked:
    """A request: when it was sent, and when its tokens came, where they arrive in the process."""

    stream: LocalStream
    sent_s: float
    came_s: list[float] = field(default_factory=list)
    has_ended: bool = False
    error: str | None = None

    @classmethod
    def of(cls, llm: LLM, **options: Any) -> Asked:
        """Sends a request, greedy unless `options` say otherwise."""
        sent_s = time.monotonic()
        asked = cls(llm.stream(**{"temperature": 0.0} | options), sent_s)
        push = asked.stream.push

        def note(step: Any) -> None:
            asked.came_s.append(time.monotonic())
            asked.has_ended, asked.error = _end(step)
            push(step)
            if asked.has_ended:
                # What nobody reads goes with the last reference to it, and waits for no garbage collection.
                del asked.stream.push

        asked.stream.push = note  # type: ignore[method-assign]
        return asked


class Hostile:
    """Three tenants that keep up four requests each.

    Args:
        llm: The model.
        prompt_tokens: Tokens of prompts that fill the context; the answer takes the rest.
    """

    def __init__(self, llm: LLM, prompt_tokens: int) -> None:
        self._llm = llm
        self._prompt_tokens = prompt_tokens
        self._number = itertools.count()
        self._ask = dict(zip(NAMES, (self._fill, self._constrain, self._leave_unread), strict=True))
        self._running: dict[str, deque[Asked]] = {name: deque() for name in NAMES}
        self.answered = dict.fromkeys(NAMES, 0)
        """Answers that ended, of each."""
        self.errors: list[str] = []
        """Why others of their requests failed."""

    def keep_up(self) -> None:
        """Sends a request for each that ended."""
        for name, running in self._running.items():
            for asked in [one for one in running if one.has_ended]:
                running.remove(asked)
                if asked.error is None:
                    self.answered[name] += 1
                else:
                    self.errors.append(asked.error)
            while len(running) < AT_ONCE:
                options = self._ask[name](next(self._number))
                running.append(Asked.of(self._llm, namespace=name, **options))

    def stop(self) -> None:
        """Cancels what still runs."""
        for asked in itertools.chain.from_iterable(self._running.values()):
            asked.stream.cancel()

    def _fill(self, number: int) -> dict[str, Any]:
        return {
            "prompt_token_ids": filling(self._llm, self._prompt_tokens, number),
            "max_tokens": ANSWER_TOKENS,
            "priority": 100,
        }

    def _constrain(self, number: int) -> dict[str, Any]:
        letters = "|".join(f"{letter}{{1,{STATES - number % 97}}}" for letter in "abcdefgh")
        return {
            "prompt": "abcdefgh",
            "regex": f"({letters})Z",
            "max_tokens": 256,
        }

    def _leave_unread(self, number: int) -> dict[str, Any]:
        return {
            "prompt": f"Number {number} is",
            "max_tokens": UNREAD_TOKENS,
            "ignore_eos": True,
        }


def filling(llm: LLM, count: int, number: int) -> list[int]:
    """So many random tokens, others for each number."""
    size = llm.tokenizer.vocabulary_size
    ids: list[int] = np.random.default_rng(number).integers(size // SPECIAL, size, count).tolist()
    return ids


def _end(step: tuple[_core.StepOutput, int] | SpectrieError) -> tuple[bool, str | None]:
    """Whether a step ends its request, and why that failed."""
    if isinstance(step, SpectrieError):
        return True, str(step)
    output, index = step
    finish = output.finishes[index]
    if finish is None:
        return False, None
    return True, f"{finish.kind.name}: {finish.message}" if finish.kind.name in _FAILED else None


class Neighbours:
    """Tenants that ask a question each, in turn, at a steady pace.

    Args:
        llm: The model.
        count: How many of them.
        temperature: Of every second tenant's answers; the others are greedy.
    """

    def __init__(self, llm: LLM, count: int, temperature: float = 0.0) -> None:
        self._llm = llm
        self._count = count
        self._temperature = temperature
        self._questions = [
            task.messages[0]["content"] for task in tasks("chat", "report") if task.messages
        ]

    def ask(self, rounds: int, seconds: float, beside: Callable[[], None]) -> list[list[Asked]]:
        """Has each tenant ask `rounds` times, evenly over `seconds`; runs `beside` in between.

        Returns:
            What each tenant asked.
        """
        asked: list[list[Asked]] = [[] for _ in range(self._count)]
        began, total = time.monotonic(), rounds * self._count
        for number in range(total):
            due_s = began + seconds * number / total
            # Also where the machine is behind and no time is left between two questions.
            beside()
            while (rest_s := due_s - time.monotonic()) > 0:
                beside()
                time.sleep(min(PAUSE_S, rest_s))
            turn, tenant = divmod(number, self._count)
            question = f"{self._questions[tenant % len(self._questions)]} ({tenant}, {turn})"
            asked[tenant].append(
                Asked.of(
                    self._llm,
                    messages=[{"role": "user", "content": question}],
                    max_tokens=ANSWER_TOKENS,
                    temperature=self._temperature * (tenant % 2),
                    seed=tenant,
                    namespace=f"tenant-{tenant}",
                )
            )
            if number % 50 == 0:
                print(f"  asked {number}/{total}", file=sys.stderr, flush=True)
        return asked


class SlowReader:
    """A tenant that reads, on a thread of its own, but takes a piece only when so many more wait.

    Args:
        llm: The model.
        answers: Questions that it asks, one after the other.
        temperature: Of its answers.
    """

    def __init__(self, llm: LLM, answers: int, temperature: float) -> None:
        self._llm = llm
        self._answers = answers
        self._temperature = temperature
        self._tokens: list[list[int]] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="slow-reader", daemon=True)
        self._thread.start()

    def tokens(self) -> list[list[int]]:
        """Waits for the end and returns the tokens of each answer."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._tokens

    def _run(self) -> None:
        try:
            for number in range(self._answers):
                self._tokens.append(self._read(number))
        except BaseException as error:
            self._error = error

    def _read(self, number: int) -> list[int]:
        asked = Asked.of(
            self._llm,
            prompt=f"Number {number} after number {number // 2} is",
            max_tokens=SLOW_TOKENS,
            ignore_eos=True,
            temperature=self._temperature,
            seed=number,
            namespace="reads-slowly",
        )
        tokens: list[int] = []
        for read, piece in enumerate(asked.stream, 1):
            tokens += piece.token_ids
            while not asked.has_ended and len(asked.came_s) < read + PIECES_BEHIND:
                time.sleep(PAUSE_S)
        return tokens
