"""Drawn tokens have the probabilities that each option promises: chi-square over 10,000 draws."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kernels.tests.sampling.draws import NEUTRAL, draw_rows
from spectrie_kernels import DrawRows, reference

DRAWS = 10_000
SCORES = np.array([3.1, 2.6, 2.4, 1.5, 1.2, 0.9, 0.7, 0.1, -0.4, -1.0, -1.2, -2.0])
# The 99.99th percentile of chi-square with eleven degrees of freedom, the most there are.
MOST = 37.4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A request's options; tokens 1 and 4 were said."""

    options: dict[str, float] = dataclasses.field(default_factory=dict)
    bias: dict[int, float] = dataclasses.field(default_factory=dict)
    bad: tuple[int, ...] = ()
    allowed: tuple[int, ...] | None = None
    path: tuple[int, ...] = ()

    def __str__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return ", ".join(f"{name} {value}" for name, value in given.items() if value) or "none"


def rows_of(case: Case) -> DrawRows:
    """The same row at 10,000 positions."""
    rows = draw_rows(np.random.default_rng(0), DRAWS, len(SCORES), [], lists=False)
    dtypes = {name: getattr(rows, name).dtype for name in NEUTRAL}
    columns = {
        name: torch.full((DRAWS,), case.options.get(name, NEUTRAL[name]), dtype=dtype)
        for name, dtype in dtypes.items()
    }
    mask = sum(1 << token for token in case.allowed or ())
    return dataclasses.replace(
        rows,
        seed=torch.full((DRAWS,), 17),
        position=torch.arange(DRAWS, dtype=torch.int32),
        request=torch.zeros(DRAWS, dtype=torch.int32),
        bias_start=torch.tensor([0, len(case.bias), len(case.bias)], dtype=torch.int32),
        bias_token=torch.tensor(list(case.bias), dtype=torch.int32),
        bias_value=torch.tensor(list(case.bias.values()), dtype=torch.float32),
        seen_start=torch.tensor([0, 2, 2], dtype=torch.int32),
        seen_token=torch.tensor([1, 4], dtype=torch.int32),
        seen_count=torch.tensor([3, 1], dtype=torch.int32),
        path_start=torch.arange(DRAWS + 1, dtype=torch.int32) * len(case.path),
        path_token=torch.tensor(case.path, dtype=torch.int32).repeat(DRAWS),
        masked_start=torch.arange(DRAWS + 1, dtype=torch.int32) * len(case.bad),
        masked_token=torch.tensor(case.bad, dtype=torch.int32).repeat(DRAWS),
        allowed=torch.tensor([[mask]], dtype=torch.int32),
        allowed_row=torch.full((DRAWS,), -1 if case.allowed is None else 0, dtype=torch.int32),
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


def expected(case: Case) -> NDArray[np.float64]:
    """The probabilities by docs/sampling.md, in 64 bits."""
    options, scores = case.options, SCORES.copy()
    for token, value in case.bias.items():
        scores[token] += value
    said = Counter({1: 3, 4: 1}) + Counter(case.path)
    for token, count in said.items():
        repetition = options.get("repetition", 1.0)
        scores[token] *= 1 / repetition if scores[token] > 0 else repetition
        scores[token] -= options.get("frequency", 0.0) * count + options.get("presence", 0.0)
    refused = set(case.bad)
    if case.allowed is not None:
        refused |= set(range(len(scores))) - set(case.allowed)
    scores[list(refused)] = -np.inf
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


CASES = [
    Case(),
    Case(options={"temperature": 0.6}),
    Case(options={"top_k": 6}),
    Case(options={"top_p": 0.8}),
    Case(options={"min_p": 0.12}),
    Case(options={"typical_p": 0.7}),
    Case(options={"repetition": 1.4}),
    Case(options={"frequency": 0.5, "presence": -0.8}),
    Case(options={"frequency": 0.5, "presence": -0.8}, path=(2, 4, 2)),
    Case(bias={0: -1.5, 7: 2.0}),
    Case(bad=(0, 2)),
    Case(allowed=(1, 2, 5, 9, 11)),
    Case(
        options={"temperature": 0.8, "repetition": 1.2, "top_p": 0.9},
        bias={3: 1.0},
        bad=(0,),
        allowed=tuple(range(9)),
        path=(2,),
    ),
]


def chi_square(drawn: NDArray[np.int32], case: Case) -> float:
    """How far tokens are from their probabilities; infinite if one was drawn that has none."""
    counts = np.bincount(drawn, minlength=len(SCORES))
    wanted = expected(case) * len(drawn)
    possible = wanted > 0
    if counts[~possible].sum():
        return float("inf")
    return float(((counts - wanted)[possible] ** 2 / wanted[possible]).sum())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tokens_have_the_promised_probabilities(case: Case) -> None:
    values = torch.from_numpy(SCORES.astype(np.float32)).repeat(DRAWS, 1)
    out = torch.empty(DRAWS, dtype=torch.int32)
    drawn = reference.draw(values, rows_of(case), out).numpy()
    assert chi_square(drawn, case) < MOST
    others = [one for one in CASES if one != case]
    assert min(chi_square(drawn, one) for one in others) > MOST
