"""The noise of sampling, written again from its definition, meets the golden file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).parents[1] / "golden" / "noise.json"


def rotate_left(word: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    return (word << np.uint32(count)) | (word >> np.uint32(32 - count))


def murmur3(words: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """MurmurHash3_x86_32 with seed 0 over little-endian words, element by element."""
    state = np.zeros_like(words[0])
    with np.errstate(over="ignore"):
        for word in words:
            mixed = rotate_left(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
            state = rotate_left(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        state = state ^ np.uint32(4 * len(words))
        state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def test_golden_cases_follow_from_the_definition() -> None:
    cases = json.loads(GOLDEN.read_text())["cases"]
    assert len(cases) == 1000
    assert {0, 2**64 - 1} <= {case["seed"] for case in cases}
    words = [
        np.array([case["seed"] & 0xFFFFFFFF for case in cases], dtype=np.uint32),
        np.array([case["seed"] >> 32 for case in cases], dtype=np.uint32),
        np.array([case["position"] for case in cases], dtype=np.uint32),
        np.array([case["token"] for case in cases], dtype=np.uint32),
    ]
    bits = murmur3(words)
    assert bits.tolist() == [case["bits"] for case in cases]
    for case in cases:
        uniform = (case["bits"] + 0.5) / 2**32
        assert np.float32(-math.log(-math.log(uniform))) == np.float32(case["gumbel"])


def test_the_hash_is_murmur3() -> None:
    # Published test vectors of MurmurHash3_x86_32 with seed 0.
    assert int(murmur3([np.array([0], dtype=np.uint32)])[0]) == 0x2362F9DE
    assert int(murmur3([np.array([0x87654321], dtype=np.uint32)])[0]) == 0xF55B516B
