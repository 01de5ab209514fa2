"""The likeliest tokens of rows and their probabilities, in plain torch."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["top_k"]


def top_k(
    logits: torch.Tensor,
    ids: torch.Tensor,
    probabilities: torch.Tensor,
    rows: torch.Tensor | None = None,
) -> None:
    """See `spectrie_kernels.top_k`."""
    if rows is not None:
        wanted = rows >= 0
        found = ids[wanted], probabilities[wanted]
        top_k(logits[wanted], *found)
        ids[wanted], probabilities[wanted] = found
        return
    width = ids.shape[1]
    infinity = float("inf")
    logits = logits.nan_to_num(nan=-infinity, posinf=infinity, neginf=-infinity)
    values, tokens = logits.sort(dim=-1, descending=True, stable=True)
    values, tokens = values[:, :width], tokens[:, :width].int()
    likely = (values - logits.logsumexp(dim=-1, keepdim=True)).exp()
    valid = (values > -infinity) & values[:, :1].isfinite()
    missing = width - values.shape[1]
    ids.copy_(functional.pad(tokens.where(valid, -1), (0, missing), value=-1))
    probabilities.copy_(functional.pad(likely.where(valid, 0.0), (0, missing)))
