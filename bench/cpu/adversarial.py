"""Speculation where nothing can be guessed: random words, high temperature."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cpu.lines import Line, from_comparison
from bench.support.pairs import compare
from bench.support.rate import rate

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["adversarial_lines"]

CONCURRENCIES = (1, 8, 32)
FLOOR, GOAL = 0.97, 0.99
TEMPERATURE = 1.5
PROMPT_TOKENS = 64
NEW_TOKENS = 64


def adversarial_lines(folder: Path, dtype: str, *, threads: int, pairs: int) -> list[Line]:
    """One line for each concurrency: an engine with everything on against one without speculation."""
    from spectrie import LLM

    with (
        LLM(folder, dtype=dtype, threads=threads, speculation=False) as off,
        LLM(folder, dtype=dtype, threads=threads) as on,
    ):
        draw = random.Random(11)
        lines = []
        for concurrency in CONCURRENCIES:
            # Texts that come again could be guessed: each pair has its own, and any further one a fresh namespace.
            batches = [_random_words(draw, off, concurrency) for _ in range(pairs + 1)]
            for llm in (off, on):
                _rate(llm, batches[-1])
            comparison = compare(
                [lambda b=batch: _rate(off, b) for batch in batches[:-1]],  # type: ignore[misc]
                [lambda b=batch: _rate(on, b) for batch in batches[:-1]],  # type: ignore[misc]
                pairs=pairs,
                title=f"adversarial x{concurrency}",
            )
            load = on.load()
            lines.append(
                from_comparison(
                    f"adversarial, {concurrency} at a time, {dtype}",
                    comparison,
                    floor=FLOOR,
                    goal=GOAL,
                    names=("off", "on"),
                    drafted_tokens=load.drafted_tokens,
                    generated_tokens=load.generated_tokens,
                )
            )
        return lines


def _random_words(draw: random.Random, llm: LLM, num_prompts: int) -> list[list[int]]:
    top = llm.tokenizer.vocabulary_size
    return [[draw.randrange(100, top) for _ in range(PROMPT_TOKENS)] for _ in range(num_prompts)]


def _rate(llm: LLM, prompts: list[list[int]]) -> float:
    return rate(
        llm, prompts, max_tokens=NEW_TOKENS, temperature=TEMPERATURE, seed=5, ignore_eos=True
    )
