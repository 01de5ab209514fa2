"""Speculation on against off over the same prompts: ours, and transformers' prompt lookup."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.support.namespaces import fresh_namespace
from bench.support.pairs import Comparison, compare
from bench.support.rival import Rival
from spectrie.types import SpeculationOptions, SpeculationStats

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["LOOKUP_TOKENS", "Sample", "measure_ours", "measure_rival"]

LOOKUP_TOKENS = 10
"""Of transformers' prompt lookup."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt.

    Attributes:
        name: Tells it from the others.
        token_ids: Of the whole prompt.
        prediction: What the answer will resemble.
    """

    name: str
    token_ids: list[int]
    prediction: str | None = None


def measure_ours(
    llm: LLM, samples: Sequence[Sample], *, pairs: int, max_tokens: int, title: str
) -> tuple[Comparison, dict[str, Any]]:
    """Compares whole requests, greedy, each in a namespace of its own.

    Returns:
        The rates, and what speculation did: tokens, accepted and drafted tokens per step, how many
        answers were identical.
    """
    tokens: dict[tuple[str, bool], tuple[int, ...]] = {}
    stats: dict[str, SpeculationStats] = {}

    def sample(prompt: Sample, enabled: bool) -> float:
        began = time.perf_counter()
        completion = llm.generate(
            prompt_token_ids=prompt.token_ids,
            max_tokens=max_tokens,
            temperature=0.0,
            prediction=prompt.prediction,
            namespace=fresh_namespace(),
            speculation=SpeculationOptions(enabled=enabled, learn=False),
        )
        seconds = time.perf_counter() - began
        tokens[prompt.name, enabled] = completion.token_ids
        if enabled:
            stats[prompt.name] = completion.speculation
        return len(completion.token_ids) / seconds

    for prompt in samples[:2]:  # warm-up
        sample(prompt, True)
    comparison = compare(
        [lambda p=p: sample(p, False) for p in samples],  # type: ignore[misc]
        [lambda p=p: sample(p, True) for p in samples],  # type: ignore[misc]
        pairs=pairs,
        title=f"speculation {title}",
    )
    measured = [p.name for p in samples if (p.name, False) in tokens]
    steps = sum(s.verify_steps for s in stats.values())
    accepted = sum(s.accepted_tokens for s in stats.values())
    by_source: dict[str, int] = {}
    for one in stats.values():
        for name, count in one.accepted_by_source.items():
            by_source[name] = by_source.get(name, 0) + count
    return comparison, {
        "identical": sum(tokens[name, True] == tokens[name, False] for name in measured),
        "prompts": len(measured),
        "tokens_per_step": 1 + accepted / steps if steps else 1.0,
        "accepted_per_step": accepted / steps if steps else 0.0,
        "drafted_per_step": sum(s.drafted_tokens for s in stats.values()) / max(steps, 1),
        "accepted_by_source": by_source,
    }


def measure_rival(
    rival: Rival, samples: Sequence[Sample], *, pairs: int, max_tokens: int, title: str
) -> tuple[Comparison, dict[str, Any]]:
    """Compares transformers' prompt lookup with its own plain decoding, likewise."""
    tokens: dict[tuple[str, bool], list[int]] = {}

    def sample(prompt: Sample, enabled: bool) -> float:
        lookup = LOOKUP_TOKENS if enabled else None
        found, _, seconds = rival.run(prompt.token_ids, max_tokens, lookup=lookup, fixed=False)
        tokens[prompt.name, enabled] = found
        return len(found) / seconds

    comparison = compare(
        [lambda p=p: sample(p, False) for p in samples],  # type: ignore[misc]
        [lambda p=p: sample(p, True) for p in samples],  # type: ignore[misc]
        pairs=min(pairs, len(samples)),
        title=f"transformers {title}",
    )
    measured = [p.name for p in samples if (p.name, True) in tokens]
    identical = sum(tokens[name, True] == tokens[name, False] for name in measured)
    return comparison, {"identical": identical, "prompts": len(measured)}
