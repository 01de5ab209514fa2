"""Greedy tree verification in plain Python over torch tensors."""

from __future__ import annotations

import torch

__all__ = ["verify_greedy"]

MAX_ROWS = 64


def verify_greedy(
    argmax: torch.Tensor,
    row_token: torch.Tensor,
    row_parent: torch.Tensor,
    request_row_start: torch.Tensor,
    request_row_count: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `spectrie_kernels.verify_greedy`."""
    requests = request_row_start.shape[0]
    counts = torch.zeros(requests, dtype=torch.int32)
    path_rows = torch.full((requests, MAX_ROWS), -1, dtype=torch.int32)
    emitted = torch.full((requests, MAX_ROWS), -1, dtype=torch.int32)
    choices, tokens, parents = argmax.tolist(), row_token.tolist(), row_parent.tolist()
    extents = zip(request_row_start.tolist(), request_row_count.tolist(), strict=True)
    for request, (start, count) in enumerate(extents):
        node: int | None = 0
        length = 0
        while node is not None:
            choice = choices[start + node]
            path_rows[request, length] = node
            emitted[request, length] = choice
            length += 1
            children = (
                row
                for row in range(node + 1, count)
                if parents[start + row] == node and tokens[start + row] == choice
            )
            node = next(children, None)
        counts[request] = length
    device = argmax.device
    return counts.to(device), path_rows.to(device), emitted.to(device)
