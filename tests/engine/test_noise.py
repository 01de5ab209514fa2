"""Noise and masses of sampling, written again from their definitions, meet the golden file.

The definitions: rust/sampling/src/noise.rs and mass.rs.
"""

from __future__ import annotations

import decimal
import json
from decimal import Decimal
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


def bits_of(number: float) -> np.int64:
    return np.float64(number).view(np.int64)


def ln(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The natural logarithm by its definition; NumPy rounds every operation on its own."""
    golden = json.loads(GOLDEN.read_text())
    r = golden["r"]
    sqrt_half = bits_of(0.5**0.5)
    shifted = x.view(np.int64) + (bits_of(1.0) - sqrt_half)
    k = ((shifted >> 52) - 1023).astype(np.float64)
    f = ((shifted & ((1 << 52) - 1)) + sqrt_half).view(np.float64) - 1.0
    h = (f * 0.5) * f
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    even = z * (r[0] + w * (r[2] + w * (r[4] + w * r[6])))
    odd = w * (r[1] + w * (r[3] + w * r[5]))
    rest = s * (h + (even + odd)) + k * golden["ln_2_low"]
    logarithm: NDArray[np.float64] = k * golden["ln_2_high"] - ((h - rest) - f)
    return logarithm


def gumbel(bits: list[int]) -> NDArray[np.float32]:
    uniform = (np.array(bits, dtype=np.float64) + 0.5) * 2.0**-32
    return (-ln(-ln(uniform))).astype(np.float32)


def mass(below: NDArray[np.float32]) -> NDArray[np.int64]:
    f32 = np.float32
    inside = np.where(below >= f32(-87), below, f32(-87))
    rounded = inside * f32(1.442695) + f32(12582912)
    power = rounded - f32(12582912)
    rest = inside - power * f32(0.6933594) - power * f32(-2.1219444e-4)
    value = np.full_like(below, 1.9875691e-4)
    for c in (1.3981999e-3, 8.333452e-3, 4.1665796e-2, 1.6666665e-1, 0.5):
        value = value * rest + f32(c)
    value = value * rest * rest + rest + f32(1)
    weight = np.where(below >= f32(-87), np.ldexp(value, power.astype(np.int32)), f32(0))
    return np.rint(weight.astype(np.float64) * 2.0**40).astype(np.int64)


def test_golden_cases_follow_from_the_definition() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert golden["version"] == 2
    cases = golden["cases"]
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
    hard = golden["hard_hashes"]
    assert {0, 2**32 - 1} <= {case[0] for case in hard}
    given = np.array([case["gumbel"] for case in cases] + [case[1] for case in hard], np.float32)
    drawn = gumbel(bits.tolist() + [case[0] for case in hard])
    assert drawn.view(np.int32).tolist() == given.view(np.int32).tolist()


def test_golden_noise_is_within_a_unit_of_the_exact_one() -> None:
    golden = json.loads(GOLDEN.read_text())
    hashes = [case["bits"] for case in golden["cases"]] + [c[0] for c in golden["hard_hashes"]]
    given = gumbel(hashes)
    with decimal.localcontext(prec=50):
        exact = [-((-((Decimal(bits) + Decimal("0.5")) / 2**32).ln()).ln()) for bits in hashes]
    nearest = np.array([float(value) for value in exact], np.float64).astype(np.float32)
    unit = np.spacing(np.abs(nearest)).astype(np.float64)
    # Where noise changes its sign it is smaller than what 64 bits leave of a logarithm near 1.
    assert (np.abs(given.astype(np.float64) - nearest) <= np.maximum(unit, 2.0**-50)).all()
    assert (given == nearest).mean() > 0.98


def test_golden_masses_follow_from_the_definition() -> None:
    masses = json.loads(GOLDEN.read_text())["masses"]
    below = np.array([case[0] for case in masses], np.float32)
    assert below.min() < -88
    assert mass(below).tolist() == [case[1] for case in masses]


def test_the_hash_is_murmur3() -> None:
    # Published test vectors of MurmurHash3_x86_32 with seed 0.
    assert int(murmur3([np.array([0], dtype=np.uint32)])[0]) == 0x2362F9DE
    assert int(murmur3([np.array([0x87654321], dtype=np.uint32)])[0]) == 0xF55B516B
