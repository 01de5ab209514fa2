"""Heads as modules along the answers that the runner's drafters are asked about, with right and wrong features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from spectrie.training.batches import Batch, collate
from spectrie.training.evaluation import HeldOut, evaluate
from spectrie.training.features import FeatureCache
from spectrie.training.kinds.base import Head
from spectrie.training.kinds.registry import KINDS
from spectrie.training.target import Target
from spectrie.training.texts.samples import Sample
from tests.training.chain.accepted import LEVELS, Answered
from tests.training.plain import PlainTarget

__all__ = ["agreement", "batch_of", "judge"]

_TOP = 8


def batch_of(
    answered: Answered,
    kind: str,
    folder: Path,
    *,
    taps: Sequence[int] | None = None,
    final_norm: bool | None = None,
) -> Batch:
    """The texts with the features of a kind, or with others that are as wide."""
    target, made = Target(answered.model), KINDS[kind]
    taps = made.taps(target.config.num_layers) if taps is None else taps
    final_norm = made.final_norm if final_norm is None else final_norm
    samples = [
        Sample(
            [*text.prompt, *text.answer], [(len(text.prompt), len(text.prompt + text.answer))], ""
        )
        for text in answered.texts
    ]
    cache = FeatureCache(folder, samples, width=made.width(target), top=_TOP)
    cache.fill(PlainTarget(target, taps, _TOP, final_norm=final_norm))
    return collate(samples, cache, range(len(samples)), LEVELS)


def judge(head: Head, batch: Batch) -> HeldOut:
    """How often the head's likeliest guesses are right, by level."""
    return evaluate(head, [batch])


@torch.no_grad()
def agreement(head: Head, batch: Batch, guesses: Sequence[tuple[int, ...]]) -> tuple[float, ...]:
    """Share of a drafter's likeliest guesses that are the head's too, by level.

    Args:
        head: The head.
        batch: The texts that the drafter was asked along.
        guesses: As `Counts` has them.
    """
    places, shares = torch.arange(len(guesses)), []
    _, likeliest = head.judged(batch)
    for number, (level, ours) in enumerate(zip(batch.levels, likeliest, strict=True)):
        if number:
            places = places[level.parents]
        both = [
            guesses[place][number] == one
            for place, one in zip(places.tolist(), ours.tolist(), strict=True)
            if len(guesses[place]) > number
        ]
        assert both, f"no guess of the drafter's reaches level {number + 1}"
        shares.append(sum(both) / len(both))
    return tuple(shares)
