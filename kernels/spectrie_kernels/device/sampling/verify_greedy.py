"""Greedy tree verification as a Triton kernel: one program a request."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["verify_greedy"]

MAX_ROWS = 64


@triton.jit
def _verify_greedy_kernel(
    argmax,
    row_token,
    row_parent,
    request_row_start,
    request_row_count,
    counts,
    path_rows,
    emitted,
    MAX_ROWS: tl.constexpr,
):
    """node_0 = 0; emit argmax[node_i]; node_{i+1} = min {c : parent[c] = node_i, token[c] = argmax[node_i]}.

    Rows of a tree fit one vector of MAX_ROWS, so a step of the walk is one masked minimum.
    """
    request = tl.program_id(0)
    start = tl.load(request_row_start + request)
    count = tl.load(request_row_count + request)
    rows = tl.arange(0, MAX_ROWS)
    inside = rows < count
    tokens = tl.load(row_token + start + rows, mask=inside, other=-1)
    parents = tl.load(row_parent + start + rows, mask=inside, other=-2)
    choices = tl.load(argmax + start + rows, mask=inside, other=-1)

    node = count * 0
    length = count * 0
    path = tl.full((MAX_ROWS,), -1, tl.int32)
    chosen = tl.full((MAX_ROWS,), -1, tl.int32)
    while node < count:
        choice = tl.sum(tl.where(rows == node, choices, 0), axis=0)
        path = tl.where(rows == length, node, path)
        chosen = tl.where(rows == length, choice, chosen)
        length += 1
        child = inside & (parents == node) & (tokens == choice)
        node = tl.min(tl.where(child, rows, MAX_ROWS), axis=0)
    tl.store(counts + request, length)
    tl.store(path_rows + request * MAX_ROWS + rows, path)
    tl.store(emitted + request * MAX_ROWS + rows, chosen)


def verify_greedy(
    argmax: torch.Tensor,
    row_token: torch.Tensor,
    row_parent: torch.Tensor,
    request_row_start: torch.Tensor,
    request_row_count: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `spectrie_kernels.verify_greedy`."""
    requests = request_row_start.shape[0]
    device = argmax.device
    counts = torch.empty(requests, dtype=torch.int32, device=device)
    path_rows = torch.empty((requests, MAX_ROWS), dtype=torch.int32, device=device)
    emitted = torch.empty((requests, MAX_ROWS), dtype=torch.int32, device=device)
    if requests:
        _verify_greedy_kernel[(requests,)](
            argmax,
            row_token,
            row_parent,
            request_row_start,
            request_row_count,
            counts,
            path_rows,
            emitted,
            MAX_ROWS=MAX_ROWS,
        )
    return counts, path_rows, emitted
