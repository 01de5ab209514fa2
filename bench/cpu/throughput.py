"""Sixteen requests at a time: ours against transformers' batched generate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.cpu.lines import Line, against_rival
from bench.support.pairs import compare
from bench.support.prompt_ids import prompt_ids
from bench.support.prompts import load
from bench.support.rate import rate
from bench.support.rival import Rival
from spectrie.types import SpeculationOptions

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["throughput_line"]

CONCURRENCY = 16
FLOOR, GOAL = 1.5, 3.0
NEW_TOKENS = 48


def throughput_line(folder: Path, dtype: str, *, threads: int, pairs: int) -> Line:
    """Tokens per second of whole batches, prefill included; every answer has the same length."""
    from spectrie import LLM

    rival = Rival(folder, dtype, threads)
    with LLM(folder, dtype=dtype, threads=threads) as llm:
        ids = [
            prompt_ids(llm, prompt) for prompt in (*load("chat"), *load("edit", CONCURRENCY - 12))
        ]
        rival.run_batch(ids, 4)
        _rate(llm, ids)
        comparison = compare(
            [lambda: rival.run_batch(ids, NEW_TOKENS)],
            [lambda: _rate(llm, ids)],
            pairs=pairs,
            title=f"throughput {dtype}",
        )
    return against_rival(
        f"{CONCURRENCY} at a time, {dtype}",
        comparison,
        "transformers, batched",
        floor=FLOOR,
        goal=GOAL,
    )


def _rate(llm: LLM, ids: list[list[int]]) -> float:
    # The same prompts come again: their answers must not be drafted from.
    unlearnt = SpeculationOptions(learn=False)
    return rate(
        llm, ids, max_tokens=NEW_TOKENS, temperature=0.0, ignore_eos=True, speculation=unlearnt
    )
