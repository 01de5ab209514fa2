"""Random rows to draw from: every option, ties, zeros of either sign and what no token can have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch

from spectrie_kernels import DrawRows

Choose = Callable[[np.random.Generator], float]

OPTIONS: dict[str, Choose] = {
    "temperature": lambda rng: float(rng.choice([0.0, 0.3, 0.9, 1.0, 2.5])),
    "top_k": lambda rng: int(rng.choice([0, 1, 2, 7, 40, 500, 100_000])),
    "top_p": lambda rng: float(rng.choice([1e-9, 0.2, 0.6, 0.9, 0.99, 0.9999, 1.0])),
    "min_p": lambda rng: float(rng.choice([0.0, 0.001, 0.05, 0.4, 1.0])),
    "typical_p": lambda rng: float(rng.choice([1e-6, 0.2, 0.7, 0.95, 1.0])),
    "repetition": lambda rng: float(rng.choice([0.5, 1.0, 1.3])),
    "frequency": lambda rng: float(rng.choice([-0.7, 0.0, 0.3])),
    "presence": lambda rng: float(rng.choice([-0.4, 0.0, 1.1])),
}
NEUTRAL = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "repetition": 1.0,
    "frequency": 0.0,
    "presence": 0.0,
}


def logits(rng: np.random.Generator, rows: int, vocabulary: int) -> torch.Tensor:
    """Returns rows of several kinds, in turn."""
    values = rng.normal(0, 4, (rows, vocabulary)).astype(np.float32)
    for row in range(rows):
        if row % 4 == 1:  # Ties.
            values[row] = np.round(values[row])
        elif row % 4 == 2:
            at = rng.random(vocabulary) < 0.3
            values[row, at] = rng.choice(
                np.array([0.0, -0.0, 1e-40, np.nan, -np.inf, 9.5], np.float32), int(at.sum())
            )
        elif row % 4 == 3:  # Hardly a difference, as of flat distributions.
            values[row] *= np.float32(0.05)
    return torch.from_numpy(values)


def draw_rows(
    rng: np.random.Generator,
    rows: int,
    vocabulary: int,
    chosen: Sequence[str] = tuple(OPTIONS),
    *,
    lists: bool = True,
) -> DrawRows:
    """Returns random options of rows of two requests; those not `chosen` are neutral."""

    def column(name: str, dtype: type[np.generic]) -> torch.Tensor:
        choose = OPTIONS[name] if name in chosen else lambda _: NEUTRAL[name]
        return torch.from_numpy(np.array([choose(rng) for _ in range(rows)], dtype))

    def starts(counts: Sequence[int]) -> torch.Tensor:
        return torch.from_numpy(np.cumsum([0, *counts]).astype(np.int32))

    def tokens(count: int, *, once: bool) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        count = min(count, vocabulary) if lists else 0
        return rng.choice(vocabulary, count, replace=not once).astype(np.int32)

    bias = [tokens(int(rng.integers(0, 9)), once=True) for _ in range(2)]
    seen = [tokens(int(rng.integers(0, 300)), once=True) for _ in range(2)]
    path = [tokens(int(rng.integers(0, 18)), once=False) for _ in range(rows)]
    for row in range(rows):
        # Drafts repeat what was said, and themselves.
        if len(path[row]) > 3 and len(seen[row % 2]):
            path[row][0] = seen[row % 2][0]
            path[row][2] = path[row][1]
    masked = [tokens(int(rng.integers(0, 5)), once=False) for _ in range(rows)]
    words = -(-vocabulary // 32) - int(rng.integers(0, 2))
    allowed_row = rng.integers(-1, 2, rows) if lists else np.full(rows, -1)
    seen_token = np.concatenate(seen)
    return DrawRows(
        seed=torch.from_numpy(rng.integers(-(2**63), 2**63, rows)),
        position=torch.from_numpy(rng.integers(0, 1 << 17, rows).astype(np.int32)),
        request=torch.from_numpy((np.arange(rows) % 2).astype(np.int32)),
        temperature=column("temperature", np.float32),
        top_k=column("top_k", np.int32),
        top_p=column("top_p", np.float32),
        min_p=column("min_p", np.float32),
        typical_p=column("typical_p", np.float32),
        repetition=column("repetition", np.float32),
        frequency=column("frequency", np.float32),
        presence=column("presence", np.float32),
        bias_start=starts([len(one) for one in bias]),
        bias_token=torch.from_numpy(np.concatenate(bias)),
        bias_value=torch.from_numpy(rng.normal(0, 5, sum(map(len, bias))).astype(np.float32)),
        seen_start=starts([len(one) for one in seen]),
        seen_token=torch.from_numpy(seen_token),
        seen_count=torch.from_numpy(rng.integers(0, 4, len(seen_token)).astype(np.int32)),
        path_start=starts([len(one) for one in path]),
        path_token=torch.from_numpy(np.concatenate(path)),
        masked_start=starts([len(one) for one in masked]),
        masked_token=torch.from_numpy(np.concatenate(masked)),
        allowed=torch.from_numpy(rng.integers(-(2**31), 2**31, (2, words)).astype(np.int32)),
        allowed_row=torch.from_numpy(allowed_row.astype(np.int32)),
        cuts=frozenset(chosen) & {"top_k", "top_p", "typical_p"},
    )


def chosen_rows(rows: DrawRows, which: Sequence[int]) -> DrawRows:
    """Returns the same options for some of the rows."""
    index = torch.tensor(which)

    def entries(name: str) -> dict[str, torch.Tensor]:
        start, tokens = getattr(rows, f"{name}_start"), getattr(rows, f"{name}_token")
        parts = [tokens[int(start[row]) : int(start[row + 1])] for row in which]
        counts = torch.tensor([0] + [len(part) for part in parts])
        return {
            f"{name}_start": counts.cumsum(0).to(torch.int32),
            f"{name}_token": torch.cat(parts),
        }

    names = ("seed", "position", "request", "allowed_row", *OPTIONS)
    columns = {name: getattr(rows, name)[index].contiguous() for name in names}
    lists = entries("path") | entries("masked")
    return dataclasses.replace(rows, **columns, **lists, cuts=rows.cuts)
