"""The likeliest tokens of rows, and the walk along them."""

from __future__ import annotations

import torch

from spectrie_kernels import reference
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.checks import check_logits, check_tensor

__all__ = [
    "TOP_K",
    "row_argmax",
    "row_argmax_workspace",
    "token_logits",
    "top_k",
    "top_k_workspace",
    "verify_greedy",
]

TOP_K = 8
"""Tokens per row that `top_k` finds where nothing else is asked for."""
CHUNK_TOKENS = 4096
"""Tokens of a row that one program looks at."""


def row_argmax(
    logits: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    workspace: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the likeliest token of each row; ties go to the lowest id, unlike in torch.argmax.

    NaN is passed over. Given `out` and `workspace` it allocates nothing.

    Args:
        logits: [rows, vocabulary], any floating dtype, contiguous.
        out: int32 [rows], contiguous; written and returned. None makes one.
        workspace: int64, contiguous, at least `row_argmax_workspace` elements, for use by one call
            at a time. None makes one where it is needed.

    Returns:
        `out`: tokens, or `NO_LOGIT` (-1) where the largest logit is not finite.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_logits(logits)
    if out is None:
        out = torch.empty(logits.shape[0], dtype=torch.int32, device=logits.device)
    check_tensor("out", out, torch.int32, [logits.shape[0]], logits.device)
    if not runs_triton(logits):
        return reference.row_argmax(logits, out)
    from spectrie_kernels.device.sampling import row_argmax as triton_form

    workspace = _workspace(workspace, row_argmax_workspace(*logits.shape), logits)
    return triton_form.row_argmax(logits, out, workspace, CHUNK_TOKENS)


def row_argmax_workspace(rows: int, vocabulary: int) -> int:
    """Returns how many int64 elements `row_argmax` needs as workspace."""
    return rows * _chunks(vocabulary)


def top_k(
    logits: torch.Tensor,
    ids: torch.Tensor | None = None,
    probabilities: torch.Tensor | None = None,
    *,
    rows: torch.Tensor | None = None,
    workspace: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Finds the likeliest tokens of each row, likeliest first, and their probabilities.

    Ties go to the lowest id and NaN is passed over; probabilities are those of the plain softmax. A row
    without a finite largest logit gets ids of -1 and probabilities of 0, as do the places of tokens
    that are missing or at minus infinity. Given all tensors it allocates nothing.

    Args:
        logits: float32 [rows, vocabulary], contiguous.
        ids: int32 [rows, width], contiguous; written and returned. The width is a power of two. None makes one
            of width `TOP_K`.
        probabilities: float32, as `ids`.
        rows: int32 [rows]: those of a negative number are passed over, and nothing is written for them. None
            passes over none.
        workspace: int64, contiguous, at least `top_k_workspace` elements, for use by one call at a
            time. None makes one where it is needed.

    Returns:
        `ids` and `probabilities`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    check_logits(logits)
    num_rows, device = logits.shape[0], logits.device
    check_tensor("logits", logits, torch.float32, [None, None], device)
    if ids is None:
        ids = torch.empty((num_rows, TOP_K), dtype=torch.int32, device=device)
    width = ids.shape[-1]
    if width < 1 or width & (width - 1):
        raise ValueError(f"ids has width {width}, expected a power of two")
    if probabilities is None:
        probabilities = torch.empty((num_rows, width), dtype=torch.float32, device=device)
    check_tensor("ids", ids, torch.int32, [num_rows, width], device)
    check_tensor("probabilities", probabilities, torch.float32, [num_rows, width], device)
    if rows is not None:
        check_tensor("rows", rows, torch.int32, [num_rows], device)
    if runs_triton(logits):
        from spectrie_kernels.device.sampling import top_k as triton_form

        workspace = _workspace(workspace, top_k_workspace(num_rows, logits.shape[1], width), logits)
        triton_form.top_k(logits, ids, probabilities, rows, workspace, CHUNK_TOKENS)
    else:
        reference.top_k(logits, ids, probabilities, rows)
    return ids, probabilities


def top_k_workspace(rows: int, vocabulary: int, width: int = TOP_K) -> int:
    """Returns how many int64 elements `top_k` needs as workspace to find `width` tokens of each row."""
    # Of each chunk the keys of its likeliest tokens, and its greatest logit and sum in one word.
    return rows * _chunks(vocabulary) * (width + 1)


def token_logits(
    x: torch.Tensor,
    rows: torch.Tensor,
    weight: torch.Tensor,
    tokens: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """Computes logits of single tokens: products of a row's state and a token's row, added in float32 in an
    order of their own, whatever stands beside them.

    Args:
        x: [any, features], contiguous, any floating dtype.
        rows: int32 [count], contiguous: row of `x` of each; negative for none.
        weight: [vocabulary, features], contiguous, any floating dtype.
        tokens: int32 [count], contiguous: row of `weight` of each; negative for none.
        out: float32 [count], contiguous; written and returned, 0 where there is no row or no token.

    Returns:
        `out`.

    Raises:
        ValueError: A shape, dtype or device does not fit; the message names it.
    """
    count, device = out.shape[0], x.device
    check_tensor("x", x, x.dtype, [None, None], device)
    check_tensor("weight", weight, weight.dtype, [None, x.shape[1]], device)
    check_tensor("out", out, torch.float32, [rows.shape[0]], device)
    check_tensor("rows", rows, torch.int32, [count], device)
    check_tensor("tokens", tokens, torch.int32, [count], device)
    if runs_triton(x):
        from spectrie_kernels.device.sampling import token_logits as triton_form

        return triton_form.token_logits(x, rows, weight, tokens, out)
    return reference.token_logits(x, rows, weight, tokens, out)


def _chunks(vocabulary: int) -> int:
    return -(-vocabulary // CHUNK_TOKENS)


def _workspace(workspace: torch.Tensor | None, elements: int, like: torch.Tensor) -> torch.Tensor:
    if workspace is None:
        return torch.empty(elements, dtype=torch.int64, device=like.device)
    check_tensor("workspace", workspace, torch.int64, [None], like.device)
    if workspace.numel() < elements:
        raise ValueError(f"workspace has {workspace.numel()} elements, expected {elements} or more")
    return workspace


def verify_greedy(
    argmax: torch.Tensor,
    row_token: torch.Tensor,
    row_parent: torch.Tensor,
    request_row_start: torch.Tensor,
    request_row_count: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Walks each request's tree along the model's greedy choices.

    The walk starts at node 0 and emits the model's token after each node. If a child carries that
    token, the walk continues at the first such child; otherwise it stops. A request without drafts is
    a tree of one row; pass the sampled row of a prefill chunk as such a tree.

    Args:
        argmax: [rows] int32, the model's choice after each row.
        row_token: [rows] int32, the token each row carries.
        row_parent: [rows] int32, index of the parent within the request, -1 for node 0.
        request_row_start: [requests] int32, first row of each request.
        request_row_count: [requests] int32, 1 to 64 rows.

    Returns:
        `counts` [requests] int32, tokens emitted (accepted drafts + 1); `path_rows`
        [requests, 64] int32, visited rows within the request; `emitted` [requests, 64] int32, the
        token emitted after each visited row. Entries from `counts` on are -1.

    Raises:
        ValueError: `row_token` or `row_parent` has another shape than `argmax`.
    """
    for name, tensor in (("row_token", row_token), ("row_parent", row_parent)):
        if tensor.shape != argmax.shape:
            raise ValueError(
                f"{name} has shape {list(tensor.shape)}, argmax has {list(argmax.shape)}"
            )
    arguments = (argmax, row_token, row_parent, request_row_start, request_row_count)
    if runs_triton(argmax):
        from spectrie_kernels.device.sampling import verify_greedy as triton_form

        return triton_form.verify_greedy(*arguments)
    return reference.verify_greedy(*arguments)
