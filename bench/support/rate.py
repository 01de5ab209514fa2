"""Tokens per second: of whole requests, prefill included, and of decoding alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Unpack

from bench.support.namespaces import fresh_namespace
from spectrie.options import GenerateOptions

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["decode_rate", "rate"]


def rate(llm: LLM, prompts: list[list[int]], **options: Unpack[GenerateOptions]) -> float:
    """That of all prompts side by side, served by nothing that an earlier call left."""
    options.setdefault("namespace", fresh_namespace())
    began = time.perf_counter()
    answers = llm.generate(prompt_token_ids=prompts, **options)
    seconds = time.perf_counter() - began
    return sum(len(answer.token_ids) for answer in answers) / seconds


def decode_rate(llm: LLM, ids: list[int], max_tokens: int) -> float:
    """That of one request, from the first delta to the last."""
    first = last = 0.0
    num_tokens = 0
    with llm.stream(
        prompt_token_ids=ids, max_tokens=max_tokens, temperature=0.0, ignore_eos=True
    ) as stream:
        for delta in stream:
            last = time.perf_counter()
            first = first or last
            num_tokens += len(delta.token_ids)
    return (num_tokens - 1) / (last - first)
