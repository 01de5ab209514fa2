"""Tokens drawn at every sampled row of a step, on the device of its logits."""

from __future__ import annotations

import torch

from spectrie_kernels import reference
from spectrie_kernels.backend import runs_triton
from spectrie_kernels.draw_rows import MAX_VOCABULARY, DrawRows

__all__ = ["BANNED", "NO_LOGIT", "draw", "draw_workspace"]

NO_LOGIT = -1
"""In place of a token, where no largest logit is finite."""
BANNED = -2
"""In place of a token, where there is one, but the options leave no token."""

CHUNKS = 64
"""Programs that share a row; changes no token."""


def draw(
    logits: torch.Tensor,
    rows: DrawRows,
    out: torch.Tensor | None = None,
    *,
    workspace: torch.Tensor | None = None,
) -> torch.Tensor:
    """Draws a token from each row of logits: the token that the Rust sampler draws from that row.

    The order is: bias, repetition, frequency and presence penalty, masks, temperature, top-k, top-p
    over what top-k left, min-p, typical over what is left, Gumbel noise. Ties go to the lowest token
    id. A row's token depends on that row alone. Given `out` and `workspace` it allocates nothing; it
    never waits for the device.

    Args:
        logits: [rows, vocabulary] float32, contiguous; not changed.
        rows: What decides the tokens beside them.
        out: int32 [rows], contiguous; written and returned. None makes one.
        workspace: int64, contiguous, at least `draw_workspace` elements, for use by one call at a
            time. None makes one where it is needed.

    Returns:
        `out`: tokens, `NO_LOGIT` or `BANNED`.

    Raises:
        ValueError: A shape, dtype or device does not fit, or the vocabulary has no token or more
            than 2^20; the message names it.
    """
    shape = list(logits.shape)
    if len(shape) != 2 or logits.dtype != torch.float32 or not logits.is_contiguous():
        raise ValueError(
            f"logits are {logits.dtype} {shape}, expected float32 [rows, vocabulary], contiguous"
        )
    if not 0 < shape[1] <= MAX_VOCABULARY:
        raise ValueError(f"the vocabulary has {shape[1]} tokens, expected 1 to {MAX_VOCABULARY}")
    rows.check(shape[0], logits.device)
    if out is None:
        out = torch.empty(shape[0], dtype=torch.int32, device=logits.device)
    if list(out.shape) != shape[:1] or out.dtype != torch.int32 or not out.is_contiguous():
        raise ValueError(f"out is {out.dtype} {list(out.shape)}, expected int32 {shape[:1]}")
    if not runs_triton(logits):
        return reference.draw(logits, rows, out)
    from spectrie_kernels.device.sampling import draw as triton_form

    parts = _parts(*shape)
    elements = sum(parts)
    if workspace is None:
        workspace = torch.empty(elements, dtype=torch.int64, device=logits.device)
    if workspace.numel() < elements or workspace.dtype != torch.int64:
        raise ValueError(
            f"workspace is {workspace.dtype} of {workspace.numel()} elements, expected int64 of "
            f"{elements} or more"
        )
    return triton_form.draw(logits, rows, out, workspace[:elements].split_with_sizes(parts), CHUNKS)


def draw_workspace(rows: int, vocabulary: int) -> int:
    """Returns how many int64 elements `draw` needs as workspace."""
    return sum(_parts(rows, vocabulary))


def _parts(rows: int, vocabulary: int) -> list[int]:
    """Returns the sizes of scores, raw, best, noisy, state, sums and moments."""
    # Whole cache lines of scores, so that what follows is aligned as its kernels are compiled.
    scores = -(-rows * vocabulary // 32) * 16
    chunks = rows * CHUNKS
    return [scores, chunks, chunks, chunks, rows * 16, chunks * 32, chunks * 2]
