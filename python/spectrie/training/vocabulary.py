"""The tokens that a head can name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from spectrie.training.texts.samples import Sample

__all__ = ["coverage", "draft_vocabulary"]


def draft_vocabulary(samples: Iterable[Sample], size: int, vocabulary_size: int) -> torch.Tensor:
    """Returns the commonest answer tokens, ascending: int64 [size]. Ids that never occurred fill it up,
    lowest first: in byte-pair vocabularies these are the commonest.

    Args:
        samples: Training samples.
        size: Tokens wanted; at most the vocabulary.
        vocabulary_size: The target's.
    """
    counts: Counter[int] = Counter()
    for sample in samples:
        for start, end in sample.answers:
            counts.update(sample.token_ids[start:end])
    ranked = sorted(range(vocabulary_size), key=lambda token: (-counts[token], token))
    return torch.tensor(sorted(ranked[: min(size, vocabulary_size)]))


def coverage(samples: Sequence[Sample], vocabulary: torch.Tensor) -> float:
    """Share of the answer tokens that the vocabulary holds: no head over it can be right more often."""
    known = set(vocabulary.tolist())
    answers = [
        token
        for sample in samples
        for start, end in sample.answers
        for token in sample.token_ids[start:end]
    ]
    return sum(token in known for token in answers) / max(len(answers), 1)
