"""Plain decoding, one request at a time: ours against transformers, same weights and threads."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cpu.lines import Line, from_comparison, limit_line
from bench.support.bandwidth import read_bandwidth
from bench.support.pairs import Comparison, compare
from bench.support.prompt_ids import prompt_ids
from bench.support.prompts import load
from bench.support.rate import decode_rate
from bench.support.rival import COMPILED_CONTEXT, Rival

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["Race", "decode_lines", "inductor_line", "race", "weight_bytes"]

RATIO = {"float32": (2.5, 4.0), "bfloat16": (2.0, 4.5)}
"""Floor and goal of the ratio to transformers."""
INDUCTOR_RATIO = (1.0, 2.0)
"""The same to transformers compiled by Inductor."""
SHARE = {"float32": (0.6, 0.8), "bfloat16": (0.4, 0.65)}
"""Floor and goal of the share of the bandwidth limit."""
ENOUGH_SHARE = 0.6
"""This share of the limit counts as the floor where the ratio asks for more than the machine has."""
_BYTES = {"float32": 4, "bfloat16": 2}


def decode_lines(
    folder: Path, dtype: str, *, threads: int, pairs: int, max_tokens: int
) -> list[Line]:
    """Ratio to transformers, and the share of the bandwidth limit.

    Args:
        folder: The model.
        dtype: `float32` or `bfloat16`.
        threads: Threads of both.
        pairs: Pairs of samples.
        max_tokens: Tokens of an answer.
    """
    num_bytes = weight_bytes(folder, dtype)
    limits = _Limits(threads, num_bytes)
    found = race(folder, dtype, threads, pairs, max_tokens, around=limits.around)
    limit = statistics.median(limits.rates)
    floor, goal = SHARE[dtype]
    share = limit_line(
        f"share of read bandwidth, {dtype}",
        f"limit {limit:.0f} tok/s ({limit * num_bytes / 1e9:.1f} GB/s)",
        f"{statistics.median(found.comparison.second):.1f} tok/s",
        limits.shares,
        floor=floor,
        goal=goal,
        limits_tokens_per_second=limits.rates,
    )
    enough = f"{share.value:.0%} of bandwidth" if share.value >= ENOUGH_SHARE else ""
    what = f"plain decode, batch 1, {dtype}"
    return [found.line(what, "transformers", RATIO[dtype], enough), share]


def inductor_line(folder: Path, dtype: str, *, threads: int, pairs: int, max_tokens: int) -> Line:
    """Ratio to transformers compiled by Inductor; arguments as of `decode_lines`."""
    found = race(folder, dtype, threads, pairs, max_tokens, compiled=True)
    what = f"plain decode, batch 1, {dtype}, against Inductor"
    return found.line(what, "compiled transformers", INDUCTOR_RATIO)


@dataclass(slots=True)
class _Limits:
    """What memory allowed beside each sample: what neighbours leave of it changes within seconds."""

    threads: int
    num_bytes: int
    rates: list[float] = field(default_factory=list)
    """Tokens per second at which all of them would be read."""
    shares: list[float] = field(default_factory=list)
    """Our samples over these."""

    def around(self, sample: Callable[[], float]) -> float:
        """Takes a sample between two measurements of the limit, of which the higher one counts."""
        before = self._rate()
        rate = sample()
        limit = max(before, self._rate())
        self.rates.append(limit)
        self.shares.append(rate / limit)
        return rate

    def _rate(self) -> float:
        return read_bandwidth(self.threads, self.num_bytes) / self.num_bytes


@dataclass(frozen=True, slots=True)
class Race:
    """Rates of both, and on how many of how many prompts they gave the same tokens."""

    comparison: Comparison
    num_same: int
    num_prompts: int

    def line(
        self, what: str, rival: str, floor_and_goal: tuple[float, float], passes_by: str = ""
    ) -> Line:
        floor, goal = floor_and_goal
        return from_comparison(
            what,
            self.comparison,
            floor=floor,
            goal=goal,
            names=(rival, f"({self.num_same}/{self.num_prompts} identical)"),
            passes_by=passes_by,
            same_tokens=self.num_same,
            prompts=self.num_prompts,
        )


def race(
    folder: Path,
    dtype: str,
    threads: int,
    pairs: int,
    max_tokens: int,
    *,
    compiled: bool = False,
    num_prompts: int | None = None,
    others: AbstractContextManager[None] | None = None,
    around: Callable[[Callable[[], float]], float] = lambda sample: sample(),
) -> Race:
    """Rates of transformers and ours, in turn; arguments as of `decode_lines`, and:

    Args:
        compiled: Whether Inductor compiles the rival.
        num_prompts: Prompts that are taken; None = all.
        others: Load that runs while the rates are measured; None = the machine must be quiet.
        around: Takes each of our samples.
    """
    from spectrie import LLM

    rival = Rival(folder, dtype, threads, compiled=compiled)
    with LLM(folder, dtype=dtype, threads=threads, speculation=False) as llm:
        prompts = [prompt_ids(llm, prompt) for prompt in load("chat")[:num_prompts]]
        if compiled:
            prompts = [ids for ids in prompts if len(ids) + max_tokens <= COMPILED_CONTEXT]

        def ours(ids: list[int]) -> float:
            return decode_rate(llm, ids, max_tokens)

        same = sum(_same(llm, rival, ids, max_tokens) for ids in prompts)
        with others or contextlib.nullcontext():
            comparison = compare(
                [lambda ids=ids: _theirs(rival, ids, max_tokens) for ids in prompts],  # type: ignore[misc]
                [lambda ids=ids: around(lambda: ours(ids)) for ids in prompts],  # type: ignore[misc]
                pairs=pairs,
                title=f"decode {dtype}{', compiled' if compiled else ''}",
                alone=others is None,
            )
    return Race(comparison, same, len(prompts))


def _theirs(rival: Rival, ids: list[int], max_tokens: int) -> float:
    tokens, seconds, _ = rival.run(ids, max_tokens, fixed=True)
    return (len(tokens) - 1) / seconds


def _same(llm: LLM, rival: Rival, ids: list[int], max_tokens: int) -> bool:
    """Whether both give the same tokens up to the end; also the warm-up."""
    theirs = rival.run(ids, max_tokens, fixed=False)[0]
    ours = llm.generate(prompt_token_ids=ids, max_tokens=max_tokens, temperature=0.0).token_ids
    return list(ours) == theirs


def weight_bytes(folder: Path, dtype: str) -> int:
    """Bytes that a decode step reads: all parameters, tied embeddings once."""
    from safetensors import safe_open

    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():
                total += _size(file.get_slice(name).get_shape())
    return total * _BYTES[dtype]


def _size(shape: list[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
