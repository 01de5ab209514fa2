"""What the tenants of one run ask, and when."""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.draft.recording.tasks import tasks
from spectrie.errors import SpectrieError

if TYPE_CHECKING:
    from spectrie import LLM, _core
    from spectrie.llm.stream import LocalStream

__all__ = ["Asked", "Hostile", "Neighbours"]

AT_ONCE = 4
"""Requests that each hostile tenant keeps up."""
UNREAD_TOKENS = 512
STATES = 6_000
ANSWER_TOKENS = 16
PAUSE_S = 0.01


@dataclass(slots=True)
class Asked:
    """A request: when it was sent, and when its tokens came, where they arrive in the process."""

    stream: LocalStream
    sent_s: float
    came_s: list[float] = field(default_factory=list)
    has_ended: bool = False

    @classmethod
    def of(cls, llm: LLM, **options: Any) -> Asked:
        """Sends a request; greedy."""
        sent_s = time.monotonic()
        asked = cls(llm.stream(temperature=0.0, **options), sent_s)
        push = asked.stream.push

        def note(step: Any) -> None:
            asked.came_s.append(time.monotonic())
            asked.has_ended = isinstance(step, SpectrieError) or _ends(*step)
            push(step)

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
        self._ask = (self._fill, self._constrain, self._leave_unread)
        self._running: list[deque[Asked]] = [deque() for _ in self._ask]
        self.ended = 0
        """Requests of theirs that ended, in an answer or an error."""

    def keep_up(self) -> None:
        """Sends a request for each that ended."""
        for ask, running in zip(self._ask, self._running, strict=True):
            for asked in [one for one in running if one.has_ended]:
                running.remove(asked)
                self.ended += 1
            while len(running) < AT_ONCE:
                running.append(Asked.of(self._llm, **ask(next(self._number))))

    def stop(self) -> None:
        """Cancels what still runs."""
        for asked in itertools.chain.from_iterable(self._running):
            asked.stream.cancel()

    def _fill(self, number: int) -> dict[str, Any]:
        ids = [1_000 + (number * 7_919 + at * 31) % 20_000 for at in range(self._prompt_tokens)]
        return {
            "prompt_token_ids": ids,
            "max_tokens": ANSWER_TOKENS,
            "priority": 100,
            "namespace": "fills",
        }

    def _constrain(self, number: int) -> dict[str, Any]:
        letters = "|".join(f"{letter}{{1,{STATES - number % 97}}}" for letter in "abcdefgh")
        return {
            "prompt": "abcdefgh",
            "regex": f"({letters})Z",
            "max_tokens": 256,
            "namespace": "constrains",
        }

    def _leave_unread(self, number: int) -> dict[str, Any]:
        return {
            "prompt": f"Number {number} is",
            "max_tokens": UNREAD_TOKENS,
            "ignore_eos": True,
            "namespace": "never-reads",
        }


def _ends(output: _core.StepOutput, index: int) -> bool:
    return output.finishes[index] is not None


class Neighbours:
    """Tenants that ask a question each, in turn, at a steady pace.

    Args:
        llm: The model.
        count: How many of them.
    """

    def __init__(self, llm: LLM, count: int) -> None:
        self._llm = llm
        self._count = count
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
                    namespace=f"tenant-{tenant}",
                )
            )
            if number % 50 == 0:
                print(f"  asked {number}/{total}", file=sys.stderr, flush=True)
        return asked
