"""Batches of texts for training a head, with the rows that each level of a draft asks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from spectrie.training.features import FeatureCache
from spectrie.training.texts.samples import Sample

__all__ = ["Batch", "Level", "batches", "collate", "shuffled"]


@dataclass(frozen=True, slots=True)
class Level:
    """The rows of one level. Row `p` of a text takes token `p` and guesses token `p + 1`.

    Attributes:
        rows: int64 [N], `text * T + p`, ascending. Level 0 asks every row before an answer's token. A
            later one asks those whose parent row `p - 1` the level before asked.
        parents: int64 [N], index of row `p - 1` among the rows of the level before; empty for level 0.
        top_ids: int64 [N, K], the target's likeliest tokens at the row.
        top_probabilities: float32 [N, K].
        next_tokens: int64 [N], token `p + 1` of the text.
    """

    rows: torch.Tensor
    parents: torch.Tensor
    top_ids: torch.Tensor
    top_probabilities: torch.Tensor
    next_tokens: torch.Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts padded to one length `T`.

    Attributes:
        tokens: int64 [texts, T], zeros behind a text's end.
        features: float32 [texts, T, width]; row `p` has the target's feature of row `p - 1`, row 0 zeros.
        levels: One entry per level.
        seed: For what a head chooses at random in it.
    """

    tokens: torch.Tensor
    features: torch.Tensor
    levels: tuple[Level, ...]
    seed: int = 0


def batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Groups texts of similar length; returns their indices, in batches of at most `max_tokens` tokens
    with padding, or of one text."""
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    return _filled(order, lengths, max_tokens)


def shuffled(lengths: Sequence[int], max_tokens: int, seed: int, epoch: int) -> Iterator[list[int]]:
    """Yields an epoch's batches; equal arguments give equal batches."""
    chance = random.Random(f"{seed} {epoch}")
    # Other texts of similar length meet in each epoch.
    varied = [length * chance.uniform(0.95, 1.0) for length in lengths]
    order = sorted(range(len(lengths)), key=lambda index: (varied[index], index))
    groups = _filled(order, lengths, max_tokens)
    chance.shuffle(groups)
    yield from groups


def _filled(order: Sequence[int], lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    groups: list[list[int]] = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if not groups or (len(groups[-1]) + 1) * longest > max_tokens:
            groups.append([])
            longest = lengths[index]
        groups[-1].append(index)
    return groups


def collate(
    samples: Sequence[Sample],
    cache: FeatureCache,
    chosen: Sequence[int],
    num_levels: int,
    *,
    seed: int = 0,
) -> Batch:
    """Builds the batch of the `chosen` samples from their cached features."""
    longest = max(len(samples[index].token_ids) for index in chosen)
    tokens = torch.zeros(len(chosen), longest, dtype=torch.int64)
    asked = torch.zeros(len(chosen), longest, dtype=torch.bool)
    features = torch.zeros(len(chosen), longest, cache.width)
    top_ids = torch.zeros(len(chosen), longest, cache.top, dtype=torch.int64)
    top_probabilities = torch.zeros(len(chosen), longest, cache.top)
    for row, index in enumerate(chosen):
        sample = samples[index]
        length = len(sample.token_ids)
        tokens[row, :length] = torch.tensor(sample.token_ids)
        text = cache.read(index)
        features[row, 1:length] = text.features[:-1]
        top_ids[row, :length] = text.top_ids
        top_probabilities[row, :length] = text.top_probabilities
        for start, end in sample.answers:
            # Row 0 has no feature before it, so it guesses nothing.
            asked[row, max(start - 1, 1) : max(end - 1, 1)] = True
    following = torch.cat([tokens.flatten()[1:], tokens.new_zeros(1)])
    levels: list[Level] = []
    here = asked
    places = torch.full((asked.numel(),), -1)
    for _ in range(num_levels):
        rows = here.flatten().nonzero().flatten()
        levels.append(
            Level(
                rows=rows,
                parents=places[rows - 1] if levels else rows[:0],
                top_ids=top_ids.flatten(0, 1)[rows],
                top_probabilities=top_probabilities.flatten(0, 1)[rows],
                next_tokens=following[rows],
            )
        )
        places = torch.full_like(places, -1)
        places[rows] = torch.arange(len(rows))
        before = torch.zeros_like(here)
        before[:, 1:] = here[:, :-1]
        here = asked & before
    return Batch(tokens, features, tuple(levels), seed)
