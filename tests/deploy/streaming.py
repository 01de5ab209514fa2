"""Streams answers by the `openai` package, as a program of its own: one line when all run, one of JSON at the end.

python streaming.py BASE_URL MODEL STREAMS TOKENS
"""

from __future__ import annotations

import json
import sys
import threading

from openai import OpenAI


class Streams:
    """Answers of one length, all at a time."""

    def __init__(self, base_url: str, model: str, number: int, tokens: int) -> None:
        self._client = OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=600)
        self._model, self._tokens = model, tokens
        self._running = threading.Barrier(number + 1)
        self.found: list[str | None] = [None] * number
        self._threads = [
            threading.Thread(target=self._stream, args=(index,)) for index in range(number)
        ]

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        self._running.wait()
        print("running", flush=True)
        for thread in self._threads:
            thread.join()

    def _stream(self, index: int) -> None:
        """Notes the finish reason and the tokens that usage counts."""
        has_begun = False
        try:
            stream = self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "user", "content": f"hello {index}"}],
                max_tokens=self._tokens,
                stream=True,
                stream_options={"include_usage": True},
                extra_body={"ignore_eos": True},
            )
            reason, tokens = None, 0
            for chunk in stream:
                if not has_begun:
                    has_begun = True
                    self._running.wait()
                for choice in chunk.choices:
                    reason = choice.finish_reason or reason
                tokens = chunk.usage.completion_tokens if chunk.usage else tokens
            self.found[index] = f"{reason} {tokens}"
        except Exception as error:  # what a stream ended with is what is asked
            self.found[index] = repr(error)
            self._running.abort()


if __name__ == "__main__":
    streams = Streams(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    try:
        streams.run()
    except threading.BrokenBarrierError:
        pass
    print(json.dumps(streams.found))
