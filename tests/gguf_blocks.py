"""Quantised blocks of GGUF made from numbers, and the numbers they stand for.

The `gguf` package writes the older types; those of 256 numbers a block are written here, after their
layout in ggml's headers, so that reading them is checked against something else than itself.
"""

from __future__ import annotations

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType as Kind

__all__ = ["quantised"]

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def quantised(values: Floats, kind: Kind) -> tuple[npt.NDArray[np.generic], Floats]:
    """Gives the stored form of a matrix, and its values after that loss.

    Args:
        values: [rows, columns]; columns are a multiple of 256 for the K types.
        kind: Any type that the `gguf` package quantises to, or Q4_K, Q5_K or Q6_K.
    """
    if kind in (Kind.Q4_K, Kind.Q5_K):
        blocks, exact = _offset_blocks(values.reshape(-1, 8, 32), 4 if kind is Kind.Q4_K else 5)
    elif kind is Kind.Q6_K:
        blocks, exact = _centred_blocks(values.reshape(-1, 16, 16))
    else:
        stored = gguf.quantize(values, kind)
        return stored, gguf.dequantize(stored, kind)
    return blocks.reshape(len(values), -1), exact.reshape(values.shape)


def _offset_blocks(x: Floats, bits: int) -> tuple[Bytes, Floats]:
    """Q4_K and Q5_K: eight runs of 32 numbers, each `scale * q - least`, both in 6 bits."""
    least = np.maximum(-x.min(axis=2), 0)
    scale = (x.max(axis=2) + least) / ((1 << bits) - 1)
    d, dmin = _half(scale.max(axis=1) / 63), _half(least.max(axis=1) / 63)
    scales, leasts = _rounded(scale / d[:, None], 63), _rounded(least / dmin[:, None], 63)
    step = (d[:, None] * scales)[:, :, None]
    offset = (dmin[:, None] * leasts)[:, :, None]
    q = _rounded((x + offset) / np.maximum(step, 1e-9), (1 << bits) - 1)
    low, high = scales[:, :4], scales[:, 4:]
    low_least, high_least = leasts[:, :4], leasts[:, 4:]
    parts = [
        d.astype(np.float16)[:, None].view(np.uint8),
        dmin.astype(np.float16)[:, None].view(np.uint8),
        low | (high >> 4) << 6,
        low_least | (high_least >> 4) << 6,
        high & 15 | (high_least & 15) << 4,
    ]
    if bits == 5:
        shifts = np.arange(8, dtype=np.uint8)[None, :, None]
        parts.append(np.bitwise_or.reduce((q >> 4) << shifts, axis=1))
    parts.append((q[:, ::2] & 15 | (q[:, 1::2] & 15) << 4).reshape(len(x), -1))
    return np.concatenate(parts, axis=1), (step * q - offset).astype(np.float32)


def _centred_blocks(x: Floats) -> tuple[Bytes, Floats]:
    """Q6_K: sixteen runs of 16 numbers, each `scale * (q - 32)`, with scales in 8 bits."""
    scale = np.abs(x).max(axis=2) / 31
    d = _half(scale.max(axis=1) / 127)
    scales = _rounded(scale / d[:, None], 127)
    step = (d[:, None] * scales)[:, :, None]
    q = _rounded(x / np.maximum(step, 1e-9) + 32, 63)
    exact = (step * (q.astype(np.float32) - 32)).astype(np.float32)
    a, b, c, e = np.split(q.reshape(-1, 2, 4, 32), 4, axis=2)  # quarters of each half
    low = np.concatenate([a & 15 | (c & 15) << 4, b & 15 | (e & 15) << 4], axis=2)
    high = a >> 4 | (b >> 4) << 2 | (c >> 4) << 4 | (e >> 4) << 6
    parts = [
        low.reshape(len(x), -1),
        high.reshape(len(x), -1),
        scales,
        d.astype(np.float16)[:, None].view(np.uint8),
    ]
    return np.concatenate(parts, axis=1), exact


def _half(x: Floats) -> Floats:
    return np.maximum(x, 1e-4).astype(np.float16).astype(np.float32)


def _rounded(x: Floats, limit: int) -> Bytes:
    return np.clip(np.rint(x), 0, limit).astype(np.uint8)
