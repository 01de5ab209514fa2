"""transformers as the rival: plain decoding and its prompt lookup, on the same weights."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["COMPILED_CONTEXT", "Rival"]

COMPILED_CONTEXT = 512
"""Tokens that the static cache of a compiled model holds."""


class Rival:
    """A transformers model on the CPU.

    Args:
        folder: Folder of the model in the Hugging Face layout.
        dtype: `float32` or `bfloat16`.
        threads: torch threads, set for the whole process.
        compiled: Whether Inductor compiles each decode step, with weights packed beforehand
            ("freezing") and a static cache. Takes minutes and a C++ compiler; plain decoding only,
            up to `COMPILED_CONTEXT` tokens.
    """

    def __init__(self, folder: Path, dtype: str, threads: int, *, compiled: bool = False) -> None:
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
        self._compiled = compiled
        self._cache: Any = None

    def run(
        self, prompt_ids: list[int], max_tokens: int, *, lookup: int | None = None, fixed: bool
    ) -> tuple[list[int], float, float]:
        """Continues a prompt greedily.

        Args:
            prompt_ids: The prompt.
            max_tokens: Maximum number of new tokens.
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
        if self._compiled:
            options |= self._compiled_options()
        ids = torch.tensor([prompt_ids])
        # Inductor packs weights only where tensors are ordinary ones.
        with torch.no_grad() if self._compiled else torch.inference_mode():
            began = time.perf_counter()
            output = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **options
            )
            whole = time.perf_counter() - began
        tokens = output[0, len(prompt_ids) :].tolist()
        return tokens, clock.last - clock.first, whole

    def _compiled_options(self) -> dict[str, Any]:
        from torch._inductor import config as inductor
        from transformers import CompileConfig, StaticCache

        if "distutils" in sys.modules:
            # Inductor imports setuptools, which refuses to replace what is already there; what is imported
            # above may have brought it.
            os.environ["SETUPTOOLS_USE_DISTUTILS"] = "stdlib"

        inductor.freezing = True
        how = CompileConfig(mode=None, fullgraph=True, dynamic=False)
        how._compile_all_devices = True  # it compiles on accelerators alone otherwise
        if self._cache is None:
            self._cache = StaticCache(config=self._model.config, max_cache_len=COMPILED_CONTEXT)
        # The compiled step keeps the addresses of the first one it saw.
        self._cache.reset()
        return {"past_key_values": self._cache, "compile_config": how}

    def run_batch(self, prompts: list[list[int]], new_tokens: int) -> float:
        """Continues prompts side by side, padded on the left, each by `new_tokens` tokens.

        Returns:
            New tokens per second, prefill included.
        """
        torch = self._torch
        torch.set_num_threads(self._threads)
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompts])
        mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
        with torch.inference_mode():
            began = time.perf_counter()
            output = self._model.generate(
                ids,
                attention_mask=mask,
                pad_token_id=0,
                do_sample=False,
                min_new_tokens=new_tokens,
                max_new_tokens=new_tokens,
            )
            seconds = time.perf_counter() - began
        return float((output.shape[1] - longest) * len(prompts) / seconds)


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
