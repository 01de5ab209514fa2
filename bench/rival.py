"""transformers as the rival: plain decoding and its prompt lookup, on the same weights."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

__all__ = ["Rival"]


class Rival:
    """A transformers model on the CPU.

    Args:
        folder: Folder of the model in the Hugging Face layout.
        dtype: `float32` or `bfloat16`.
        threads: torch threads, set for the whole process.
    """

    def __init__(self, folder: Path, dtype: str, threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._torch = torch
        torch.set_num_threads(threads)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        self._model: Any = model.eval()
        self._threads = threads

    def run(
        self, prompt_ids: list[int], max_tokens: int, *, lookup: int | None = None, fixed: bool
    ) -> tuple[list[int], float, float]:
        """Continues a prompt greedily.

        Args:
            prompt_ids: The prompt.
            max_tokens: Most new tokens.
            lookup: Tokens of prompt lookup per step; None decodes plainly.
            fixed: Whether to go on to `max_tokens` past the end-of-sequence token.

        Returns:
            The new tokens, the seconds from first to last one, and the seconds of the whole.
        """
        torch = self._torch
        torch.set_num_threads(self._threads)
        clock = _Clock()
        options: dict[str, Any] = {"max_new_tokens": max_tokens, "do_sample": False}
        if fixed:
            options["min_new_tokens"] = max_tokens
        if lookup is None:
            options["streamer"] = clock
        else:
            options["prompt_lookup_num_tokens"] = lookup
        ids = torch.tensor([prompt_ids])
        with torch.inference_mode():
            began = time.perf_counter()
            output = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **options
            )
            whole = time.perf_counter() - began
        tokens = output[0, len(prompt_ids) :].tolist()
        return tokens, clock.last - clock.first, whole


class _Clock:
    """A streamer that only notes when the first and the last token came."""

    def __init__(self) -> None:
        self.first = 0.0
        self.last = 0.0
        self._prompt_seen = False

    def put(self, _tokens: object) -> None:
        """Called with the prompt, then with each new token."""
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        self.last = time.perf_counter()
        self.first = self.first or self.last

    def end(self) -> None:
        """Called after the last token."""
