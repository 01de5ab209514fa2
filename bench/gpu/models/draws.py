"""Rows to draw from, with chosen options."""

from __future__ import annotations

from typing import Any

import torch

from spectrie_kernels import DrawRows

__all__ = ["OPTIONS", "draw_rows"]

OPTIONS: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0.0},
    "temperature": {},
    "top_k": {"top_k": 40},
    "top_p": {"top_p": 0.95},
    "min_p": {"min_p": 0.05},
    "typical_p": {"typical_p": 0.9},
    "penalties": {"repetition": 1.1, "frequency": 0.2, "presence": 0.3},
}
"""Those of rows that use one option, by its name."""
_NEUTRAL = {
    "temperature": 0.8,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "repetition": 1.0,
    "frequency": 0.0,
    "presence": 0.0,
}
_SEEN = 500


def draw_rows(
    rows: int, vocabulary: int, device: torch.device | str, options: dict[str, float]
) -> DrawRows:
    """Rows of one request that has seen 500 tokens.

    Args:
        rows: How many.
        vocabulary: Tokens.
        device: Where the kernels run.
        options: Values of some options; others are neutral.
    """

    def filled(count: int, value: float, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.full((count,), value, dtype=dtype, device=device)

    def starts(count: int, each: int) -> torch.Tensor:
        return torch.arange(count + 1, dtype=torch.int32, device=device) * each

    penalised = any(name in options for name in ("repetition", "frequency", "presence"))
    seen = min(_SEEN, vocabulary) if penalised else 0
    values = _NEUTRAL | options
    fields: dict[str, Any] = {name: filled(rows, values[name], torch.float32) for name in _NEUTRAL}
    return DrawRows(
        seed=torch.arange(rows, dtype=torch.int64, device=device) * 7919,
        position=starts(rows - 1, 3),
        request=filled(rows, 0),
        top_k=filled(rows, int(values.get("top_k", 0))),
        bias_start=starts(1, 0),
        bias_token=filled(0, 0),
        bias_value=filled(0, 0, torch.float32),
        seen_start=starts(1, seen),
        seen_token=torch.arange(seen, dtype=torch.int32, device=device),
        seen_count=filled(seen, 1),
        path_start=starts(rows, 0),
        path_token=filled(0, 0),
        masked_start=starts(rows, 0),
        masked_token=filled(0, 0),
        allowed=filled(1, -1).view(1, 1),
        allowed_row=filled(rows, -1),
        cuts=frozenset(("top_k", "top_p", "typical_p")) & frozenset(options),
        **fields,
    )
