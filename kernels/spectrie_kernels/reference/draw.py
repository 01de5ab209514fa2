"""Sampling in NumPy: each step written as its definition says, over whole sorted rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie_kernels.draw_rows import DrawRows
from spectrie_kernels.reference.sampling_arithmetic import (
    gumbel,
    hash_bits,
    logarithm,
    rounded_mass,
    weight,
)

__all__ = ["draw"]

_NO_LOGIT, _BANNED = -1, -2
_GREEDY_BELOW = np.float32(1e-5)

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


def draw(logits: torch.Tensor, rows: DrawRows, out: torch.Tensor) -> torch.Tensor:
    """See `spectrie_kernels.draw`."""
    for row, one in enumerate(logits.numpy()):
        # Infinite logits may become NaN on the way, which no cut keeps.
        with np.errstate(invalid="ignore", over="ignore"):
            out[row] = _token(one, rows, row)
    return out


def _token(logits: Float32, rows: DrawRows, row: int) -> int:
    scores = _adjusted(logits, rows, row)
    temperature = np.float32(rows.temperature[row])
    is_greedy = temperature < _GREEDY_BELOW
    if not is_greedy:
        scores = scores / temperature
    best = _greatest(scores)
    if best is None:
        return _NO_LOGIT if _greatest(logits) is None else _BANNED
    if is_greedy:
        return int(np.flatnonzero(scores >= best)[0])
    tokens = _survivors(scores, best, rows, row)
    noise = gumbel(
        hash_bits(int(rows.seed[row]), int(rows.position[row]), tokens.astype(np.uint32))
    )
    noisy = scores[tokens] + noise
    return int(tokens[np.lexsort((tokens, -_ascending(noisy)))[0]])


def _greatest(scores: Float32) -> np.float32 | None:
    numbers = scores[~np.isnan(scores)]
    greatest = numbers.max() if numbers.size else np.float32(-np.inf)
    return np.float32(greatest) if np.isfinite(greatest) else None


def _listed(name: str, entry: str, rows: DrawRows, owner: int) -> NDArray[np.generic]:
    start = getattr(rows, f"{name}_start")
    entries: NDArray[np.generic] = getattr(rows, entry).numpy()
    return entries[int(start[owner]) : int(start[owner + 1])]


def _adjusted(logits: Float32, rows: DrawRows, row: int) -> Float32:
    scores = logits.copy()
    request = int(rows.request[row])
    scores[_listed("bias", "bias_token", rows, request)] += _listed(
        "bias", "bias_value", rows, request
    )
    seen = _listed("seen", "seen_token", rows, request).tolist()
    counts = dict(zip(seen, _listed("seen", "seen_count", rows, request).tolist(), strict=True))
    for token in _listed("path", "path_token", rows, row).tolist():
        counts[token] = counts.get(token, 0) + 1
    repetition, frequency, presence = (
        np.float32(one[row]) for one in (rows.repetition, rows.frequency, rows.presence)
    )
    for token, count in counts.items():
        score = scores[token]
        score = score / repetition if score > 0 else score * repetition
        if count > 0:
            score = score - (frequency * np.float32(count) + presence)
        scores[token] = score
    scores[_listed("masked", "masked_token", rows, row)] = -np.inf
    mask = int(rows.allowed_row[row])
    if mask >= 0:
        words = rows.allowed[mask].numpy().astype("<i4").view(np.uint8)
        allowed = np.zeros(len(scores), dtype=bool)
        bits = np.unpackbits(words, bitorder="little")[: len(scores)]
        allowed[: len(bits)] = bits
        scores[~allowed] = -np.inf
    return scores


def _survivors(scores: Float32, best: np.float32, rows: DrawRows, row: int) -> Int64:
    """Returns the tokens that the cuts leave, ascending."""
    tokens = np.flatnonzero(scores > -np.inf)
    masses = rounded_mass(weight(scores - best).astype(np.float64))
    likeliest = 0xFFFFFFFF - _ascending(scores)
    top_k = int(rows.top_k[row])
    if "top_k" in rows.cuts and 0 < top_k < len(scores):
        tokens = _first(tokens, likeliest, np.ones_like(masses), top_k)
    top_p = np.float32(rows.top_p[row])
    if "top_p" in rows.cuts and top_p < 1:
        tokens = _first(tokens, likeliest, masses, _needed(top_p, masses[tokens]))
    min_p = np.float32(rows.min_p[row])
    if min_p > 0:
        floor = best + logarithm(np.array([min_p], np.float64)).astype(np.float32)[0]
        tokens = tokens[scores[tokens] >= floor]
    typical_p = np.float32(rows.typical_p[row])
    if "typical_p" in rows.cuts and typical_p < 1:
        below = scores - best
        weights = weight(below).astype(np.float64)
        distances = np.where(below >= np.float32(-87), -below, np.float32(87))
        moments = rounded_mass(weights * distances.astype(np.float64))
        mean = np.float64(moments[tokens].sum()) / np.float64(masses[tokens].sum())
        above = below.astype(np.float64) + mean
        distance = np.abs(above).astype(np.float32).view(np.int32).astype(np.int64)
        nearest = 2 * distance + (above < 0)
        tokens = _first(tokens, nearest, masses, _needed(typical_p, masses[tokens]))
    return tokens


def _first(tokens: Int64, places: Int64, masses: Int64, needed: int) -> Int64:
    """Returns those of `tokens` in the order of places, then ids, whose masses reach `needed`."""
    order = tokens[np.lexsort((tokens, places[tokens]))]
    reached = np.cumsum(masses[order]) >= needed
    count = int(np.argmax(reached)) + 1 if reached.any() else len(order)
    return np.sort(order[:count])


def _needed(share: np.float32, masses: Int64) -> int:
    return max(1, int(np.float64(share) * np.float64(masses.sum())))


def _ascending(scores: Float32) -> Int64:
    bits = scores.view(np.int32).astype(np.int64)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) + (1 << 31)
