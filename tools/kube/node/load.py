"""Streams that are asked for one after the other, by several callers, until they are to stop asking."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Load", "Outcome", "Way"]

_PATIENCE_S = 120.0
_FIRST_TOKENS = 128
_MOST_TOKENS = 900
_LONG_S = 6.0
"""Streams after the first are as long as this at its pace, to twice as long: some run whenever a pod stops."""
_PROMPT = "Once upon a time there was a river, and beside it lived"


@dataclass(frozen=True, slots=True)
class Way:
    """How a pod is called.

    Attributes:
        port: At its address.
        path: What is asked for.
        key: An API key; none if empty.
    """

    port: int
    path: str
    key: str = ""

    @property
    def is_chat(self) -> bool:
        """Whether it speaks OpenAI's form; else it takes a prompt and sends text."""
        return self.path.endswith("/chat/completions")

    def body(self, tokens: int) -> str:
        """What is sent, for an answer of so many tokens; the app decides by itself."""
        if not self.is_chat:
            return _PROMPT
        messages = [{"role": "user", "content": _PROMPT}]
        more = {"stream": True, "max_tokens": tokens, "ignore_eos": True}
        return json.dumps({"model": "smollm2-135m", "messages": messages, **more})

    def is_whole(self, text: str) -> bool:
        """Whether an answer that ended well by HTTP is all that was asked for.

        The app sends text alone, and no last chunk where it breaks off; a model may answer nothing.
        """
        return not self.is_chat or (
            text.rstrip().endswith("data: [DONE]") and '"error"' not in text
        )


@dataclass(slots=True)
class Outcome:
    """What became of the streams.

    Attributes:
        finished: Streams that came to their end.
        refused: Why others did not begin.
        lost: Why others broke off.
    """

    finished: int
    refused: list[str]
    lost: list[str]


class Load:
    """Callers, from the start on.

    Args:
        address: Finds whom to call, for each stream anew.
        way: How.
        callers: How many streams there are at a time.
    """

    def __init__(self, address: Callable[[], str], way: Way, callers: int) -> None:
        self._address, self._way = address, way
        self._lock = threading.Lock()
        self._outcome = Outcome(0, [], [])
        self._running = 0
        self._has_begun = [threading.Event() for _ in range(callers)]
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._call, args=(begun,), daemon=True)
            for begun in self._has_begun
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_flowing(self) -> bool:
        """Whether each caller has had a first stream, and has begun another."""
        return all(begun.is_set() for begun in self._has_begun)

    @property
    def is_done(self) -> bool:
        """Whether no caller waits for anything."""
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def running(self) -> int:
        """How many streams have begun and not ended."""
        with self._lock:
            return self._running

    def outcome(self) -> Outcome:
        """What became of the streams so far."""
        with self._lock:
            return Outcome(
                self._outcome.finished, list(self._outcome.refused), list(self._outcome.lost)
            )

    def stop_asking(self) -> None:
        """No further streams; those that run are read to their end."""
        self._is_over.set()

    def _call(self, begun: threading.Event) -> None:
        tokens, at = _FIRST_TOKENS, time.monotonic()
        problem = self._stream(tokens, threading.Event())
        longest = min(_MOST_TOKENS, tokens * _LONG_S / (time.monotonic() - at))
        # What comes after a failure would say nothing new.
        while problem is None and not self._is_over.is_set():
            # Callers whose streams are of one length would end together.
            tokens = int(max(_FIRST_TOKENS, longest) * random.uniform(1.0, 2.0))
            problem = self._stream(tokens, begun)

    def _stream(self, tokens: int, begun: threading.Event) -> str | None:
        connection = http.client.HTTPConnection(
            self._address(), self._way.port, timeout=_PATIENCE_S
        )
        headers = {"Content-Type": "application/json"}
        if self._way.key:
            headers["Authorization"] = f"Bearer {self._way.key}"
        try:
            connection.request("POST", self._way.path, self._way.body(tokens), headers)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return self._note(refused=repr(error))
        try:
            if answer.status != 200:
                text = answer.read().decode(errors="replace")
                return self._note(refused=f"{answer.status}: {text[:200]}")
            with self._lock:
                self._running += 1
            try:
                first = answer.read1(65536)
                begun.set()
                text = (first + answer.read()).decode(errors="replace")
            finally:
                with self._lock:
                    self._running -= 1
        except (OSError, http.client.HTTPException) as error:
            return self._note(lost=repr(error))
        finally:
            connection.close()
        if not self._way.is_whole(text):
            return self._note(lost=f"it ends with {text[-200:]!r}")
        return self._note()

    def _note(self, *, refused: str | None = None, lost: str | None = None) -> str | None:
        with self._lock:
            if refused is not None:
                self._outcome.refused.append(refused)
            elif lost is not None:
                self._outcome.lost.append(lost)
            else:
                self._outcome.finished += 1
        return refused or lost
