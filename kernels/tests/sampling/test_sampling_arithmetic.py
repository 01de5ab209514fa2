"""Noise and masses in kernels and in NumPy: the bits of the golden file that rust/sampling writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton

from kernels.tests.sampling.small_kernels import (
    gumbel_kernel,
    mass_kernel,
    noise_kernel,
    order_kernel,
)
from spectrie_kernels.reference import sampling_arithmetic as plain_form

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "tests" / "golden" / "noise.json").read_text()
)


def padded(values: list[Any], dtype: type[np.generic]) -> torch.Tensor:
    size = triton.next_power_of_2(len(values))
    numbers = np.array(values + [0] * (size - len(values)))
    # Unsigned numbers keep their bits.
    return torch.from_numpy(numbers.astype(dtype, casting="unsafe").reshape(size))


def bits_of(values: Any) -> list[int]:
    found: list[int] = np.asarray(values, np.float32).view(np.int32).tolist()
    return found


def test_hashes_and_noise_are_those_of_the_golden_file() -> None:
    cases = GOLDEN["cases"]
    seeds = np.array([case["seed"] for case in cases], np.uint64).view(np.int64).tolist()
    positions = [case["position"] for case in cases]
    tokens = [case["token"] for case in cases]
    given = [padded(seeds, np.int64)]
    given += [
        padded(np.array(words, np.uint32).view(np.int32).tolist(), np.int32)
        for words in (positions, tokens)
    ]
    size = len(given[0])
    bits = torch.empty(size, dtype=torch.int64)
    noise, bound = torch.empty(size), torch.empty(size)
    noise_kernel[(1,)](*given, bits, noise, bound, SIZE=size)
    wanted = bits_of([case["gumbel"] for case in cases])
    assert bits[: len(cases)].tolist() == [case["bits"] for case in cases]
    assert bits_of(noise[: len(cases)]) == wanted
    assert bool((noise <= bound).all())
    plain = [
        plain_form.hash_bits(case["seed"], case["position"], np.array([case["token"]], np.uint32))
        for case in cases
    ]
    assert np.concatenate(plain).tolist() == [case["bits"] for case in cases]
    assert bits_of(plain_form.gumbel(np.concatenate(plain))) == wanted


def test_noise_of_hard_hashes_is_that_of_the_golden_file() -> None:
    hashes = [case[0] for case in GOLDEN["hard_hashes"]]
    wanted = bits_of([case[1] for case in GOLDEN["hard_hashes"]])
    given = padded(hashes, np.int64)
    noise, bound = torch.empty(len(given)), torch.empty(len(given))
    gumbel_kernel[(1,)](given, noise, bound, SIZE=len(given))
    assert bits_of(noise[: len(hashes)]) == wanted
    assert bool((noise <= bound).all())
    assert bits_of(plain_form.gumbel(np.array(hashes, np.uint32))) == wanted


def test_noise_is_below_its_bound_where_rounding_could_hide_it() -> None:
    powers = [(1 << bit) + step for bit in range(1, 32) for step in range(-2, 3)]
    hashes = [(1 << 32) - 1 - one for one in powers if 0 <= one < 1 << 32]
    given = padded(hashes, np.int64)
    noise, bound = torch.empty(len(given)), torch.empty(len(given))
    gumbel_kernel[(1,)](given, noise, bound, SIZE=len(given))
    assert bool((noise <= bound).all())


def test_masses_are_those_of_the_golden_file() -> None:
    below = [case[0] for case in GOLDEN["masses"]]
    wanted = [case[1] for case in GOLDEN["masses"]]
    given = padded(below, np.float32)
    masses = torch.empty(len(given), dtype=torch.int64)
    mass_kernel[(1,)](given, masses, SIZE=len(given))
    assert masses[: len(wanted)].tolist() == wanted
    weights = plain_form.weight(np.array(below, np.float32)).astype(np.float64)
    assert plain_form.rounded_mass(weights).tolist() == wanted
    hard = torch.tensor([0.0, -0.0, torch.nan, -torch.inf, -87.0, -87.1, -1e38, -1e-40])
    masses = torch.empty(8, dtype=torch.int64)
    mass_kernel[(1,)](hard, masses, SIZE=8)
    assert masses.tolist() == [1 << 40, 1 << 40, 0, 0, 0, 0, 0, 1 << 40]


def test_orders_are_those_of_numbers_and_lead_back() -> None:
    numbers = [-np.inf, -3.5, -1e-40, -0.0, 0.0, 1e-40, 2.0, np.inf]
    scores = torch.tensor(numbers, dtype=torch.float32)
    order, back = torch.empty(8, dtype=torch.int64), torch.empty(8)
    order_kernel[(1,)](scores, order, back, SIZE=8)
    assert order.tolist() == sorted(set(order.tolist()))
    assert 0 <= int(order[0]) and int(order[-1]) < 1 << 32
    assert bits_of(back) == bits_of(scores)
