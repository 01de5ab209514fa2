"""Tokens per second of whole requests, prefill included."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Unpack

from bench.support.namespaces import fresh_namespace
from spectrie.options import GenerateOptions

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["rate"]


def rate(llm: LLM, prompts: list[list[int]], **options: Unpack[GenerateOptions]) -> float:
    """That of all prompts side by side, served by nothing that an earlier call left."""
    options.setdefault("namespace", fresh_namespace())
    began = time.perf_counter()
    answers = llm.generate(prompt_token_ids=prompts, **options)
    seconds = time.perf_counter() - began
    return sum(len(answer.token_ids) for answer in answers) / seconds
