"""Drawn tokens have the probabilities that each option promises: chi-square over 20,000 draws."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kernels.tests.sampling.draws import NEUTRAL, draw_rows
from spectrie_kernels import DrawRows, reference

DRAWS = 20_000
SCORES = np.array([3.1, 2.6, 2.4, 1.5, 1.2, 0.9, 0.7, 0.1, -0.4, -1.0, -1.2, -2.0])
# The 99.99th percentile of chi-square with eleven degrees of freedom, the most there are.
MOST = 37.4


def rows_of(options: dict[str, float]) -> DrawRows:
    """The same row at 20,000 positions; tokens 1 and 4 were said."""
    rows = draw_rows(np.random.default_rng(0), DRAWS, len(SCORES), [], lists=False)
    dtypes = {name: getattr(rows, name).dtype for name in NEUTRAL}
    columns = {
        name: torch.full((DRAWS,), options.get(name, NEUTRAL[name]), dtype=dtype)
        for name, dtype in dtypes.items()
    }
    return dataclasses.replace(
        rows,
        seed=torch.full((DRAWS,), 17),
        position=torch.arange(DRAWS, dtype=torch.int32),
        request=torch.zeros(DRAWS, dtype=torch.int32),
        seen_start=torch.tensor([0, 2, 2], dtype=torch.int32),
        seen_token=torch.tensor([1, 4], dtype=torch.int32),
        seen_count=torch.tensor([3, 1], dtype=torch.int32),
        cuts=frozenset(("top_k", "top_p", "typical_p")),
        **columns,
    )


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(scores - scores.max())
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def head(order: NDArray[np.int64], shares: NDArray[np.float64], mass: float) -> set[int]:
    """The first tokens whose shares reach the mass."""
    count = int(np.argmax(np.cumsum(shares[order]) >= mass)) + 1
    return set(order[:count].tolist())


def expected(options: dict[str, float]) -> NDArray[np.float64]:
    scores = SCORES.copy()
    for token, count in ((1, 3), (4, 1)):
        repetition = options.get("repetition", 1.0)
        scores[token] *= 1 / repetition if scores[token] > 0 else repetition
        scores[token] -= options.get("frequency", 0.0) * count + options.get("presence", 0.0)
    scores /= options.get("temperature", 1.0)
    shares = softmax(scores)
    order = np.argsort(-scores)
    kept = set(range(len(scores)))
    if "top_k" in options:
        kept = set(order[: int(options["top_k"])].tolist())
    if "top_p" in options:
        kept = head(order, shares, options["top_p"])
    if "min_p" in options:
        kept = set(np.flatnonzero(shares >= options["min_p"] * shares.max()).tolist())
    if "typical_p" in options:
        entropy = -(shares * np.log(shares)).sum()
        order = np.argsort(np.abs(-np.log(shares) - entropy))
        kept = head(order, shares, options["typical_p"])
    left = np.array([share if token in kept else 0.0 for token, share in enumerate(shares)])
    result: NDArray[np.float64] = left / left.sum()
    return result


DISTRIBUTIONS: list[dict[str, float]] = [
    {},
    {"temperature": 0.6},
    {"top_k": 5},
    {"top_p": 0.8},
    {"min_p": 0.12},
    {"typical_p": 0.7},
    {"repetition": 1.4},
    {"frequency": 0.5, "presence": -0.8},
]


def chi_square(drawn: NDArray[np.int32], options: dict[str, float]) -> float:
    """How far tokens are from their probabilities; infinite if one was drawn that has none."""
    counts = np.bincount(drawn, minlength=len(SCORES))
    wanted = expected(options) * len(drawn)
    possible = wanted > 0
    if counts[~possible].sum():
        return float("inf")
    return float(((counts - wanted)[possible] ** 2 / wanted[possible]).sum())


@pytest.mark.parametrize("options", DISTRIBUTIONS, ids=str)
def test_tokens_have_the_promised_probabilities(options: dict[str, float]) -> None:
    values = torch.from_numpy(SCORES.astype(np.float32)).repeat(DRAWS, 1)
    out = torch.empty(DRAWS, dtype=torch.int32)
    drawn = reference.draw(values, rows_of(options), out).numpy()
    assert chi_square(drawn, options) < MOST
