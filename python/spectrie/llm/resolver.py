"""Options of `LLM` as choices of the engine, resolved within the time of their request."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spectrie.engine.grammars import Grammars

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.llm.prompts import Prompt
    from spectrie.model import Runner

__all__ = ["Resolver"]


class Resolver:
    """Resolves the requests of one model; shared between threads.

    Args:
        runner: Runs the model.
        tokenizer: The model's.
        model: Its name in messages.
        generation_config: The model's own sampling numbers; None without the file.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: _core.Tokenizer,
        model: str,
        generation_config: _core.GenerationConfig | None,
    ) -> None:
        from spectrie import _core

        self._grammars = _TimedGrammars(Grammars(lambda: tokenizer, runner.eos_token_ids))
        self._resolver = _core.RequestResolver(
            tokenizer,
            model=model,
            vocabulary_size=runner.vocabulary_size,
            max_context=runner.max_context,
            speculate=runner.can_speculate,
            has_drafter=runner.drafts,
            compile=self._grammars.compile,
            generation_config=generation_config,
        )

    def resolve(
        self, prompt: Prompt, options: Mapping[str, object], n: int, began_s: float
    ) -> list[_core.Choice]:
        """Checks a request and gives each of its `n` choices.

        Args:
            prompt: Its prompt.
            options: As `GenerateOptions`.
            n: Answers to give, 1 to 8.
            began_s: When its time began, on the clock of `time.monotonic`.

        Raises:
            InvalidArgument: With every field that is not allowed.
            ModelError: A chat, and the model has no chat template.
            DeadlineExceeded: The constraint was not compiled within `timeout`.
        """
        self._grammars.begin(began_s)
        return self._resolver.resolve(*prompt, options, n)


class _TimedGrammars:
    """Compiles constraints in what is left of the time of the requests that ask for them."""

    def __init__(self, grammars: Grammars) -> None:
        self._grammars = grammars
        # Compiling is called back on the thread that resolves, and it resolves one request at a time.
        self._request = threading.local()

    def begin(self, began_s: float) -> None:
        """Says when the next request of this thread began."""
        self._request.began_s = began_s

    def compile(
        self, kind: str, text: str | list[str] | None, timeout_s: float | None
    ) -> _core.Grammar:
        """As `Grammars.compile`, but `timeout_s` counts from where the request began."""
        if timeout_s is not None:
            timeout_s -= time.monotonic() - self._request.began_s
            if timeout_s <= 0.0:
                raise TimeoutError(f"no time was left to compile {kind}")
        return self._grammars.compile(kind, text, timeout_s)
