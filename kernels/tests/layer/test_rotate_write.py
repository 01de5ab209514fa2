"""Head norm, rotation and cache write: the bytes of the reference, for every form of the product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import spectrie_kernels
from kernels.tests.ascending import ascending_sum, sensitive
from kernels.tests.layer import broken
from spectrie_kernels import PartialSums, add_rank_sums, reference
from spectrie_kernels.device import rotate_write as device_form

EPSILON = 1e-5
ROWS = 6
SLOTS = 9
CONTEXT = 40

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """Arguments; the last row is padding."""

    qkv: torch.Tensor | PartialSums
    positions: torch.Tensor
    slots: torch.Tensor
    rotation: Pair | None
    norms: Pair | None
    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    def fresh(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Keys, values and queries that show what was not written."""
        slots = (SLOTS, self.kv_heads, self.head_dim)
        rows = (len(self.slots), self.heads, self.head_dim)
        keys, query = (torch.full(shape, 7.0, dtype=self.dtype) for shape in (slots, rows))
        return keys, keys.clone(), query

    def done(self) -> list[torch.Tensor]:
        keys, values, query = self.fresh()
        settings: dict[str, Any] = {"rotation": self.rotation, "norms": self.norms}
        given = spectrie_kernels.rotate_write(
            self.qkv,
            self.positions,
            self.slots,
            keys,
            values,
            query,
            **settings,
            epsilon=EPSILON,
        )
        assert given is query
        return [keys, values, query]

    def expected(self) -> list[torch.Tensor]:
        keys, values, query = self.fresh()
        row = (self.qkv, self.positions, self.slots)
        reference.rotate_write(*row, keys, values, query, self.rotation, self.norms, EPSILON)
        return [keys, values, query]


def case(
    heads: int = 3,
    kv_heads: int = 1,
    head_dim: int = 12,
    rotated: int = 8,
    *,
    norms: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Case:
    generator = torch.Generator().manual_seed(heads * 100 + head_dim)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    angles = random(CONTEXT, rotated // 2)
    slots = torch.randperm(SLOTS, generator=generator)[:ROWS].int()
    positions = torch.randint(0, CONTEXT, (ROWS,), generator=generator).int()
    slots[-1] = positions[-1] = -1
    return Case(
        qkv=random(ROWS, (heads + 2 * kv_heads) * head_dim).mul(3).to(dtype),
        positions=positions,
        slots=slots,
        rotation=(angles.cos(), angles.sin()) if rotated else None,
        norms=(random(head_dim), random(head_dim)) if norms else None,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=dtype,
    )


def of_sums(parts: int, like: Case, *, pairwise: bool = True) -> Case:
    """The same with sums of numbers that tell orders apart, and a bias."""
    features = (like.heads + 2 * like.kv_heads) * like.head_dim
    values = sensitive(parts * ROWS, features, parts, torch.float32).view(parts, ROWS, features)
    # float16 holds no larger numbers.
    scale = 2.0**-14 if like.dtype == torch.float16 else 1.0
    bias = sensitive(1, features, 9, torch.float32)[0] * scale
    return replace(like, qkv=PartialSums(values * scale, bias, pairwise))


def same_bytes(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(
        torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        for a, b in zip(one, other, strict=True)
    )


SHAPES = [(3, 1, 12, 8), (4, 2, 16, 16), (4, 4, 64, 64), (1, 1, 80, 32), (7, 1, 4, 0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_gives_the_bytes_of_the_reference(
    shape: tuple[int, int, int, int], norms: bool, dtype: torch.dtype
) -> None:
    given = case(*shape, norms=norms, dtype=dtype)
    assert same_bytes(given.done(), given.expected())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("parts", [0, 2])
def test_zeros_of_either_sign_give_the_bytes_of_the_reference(
    parts: int, norms: bool, dtype: torch.dtype
) -> None:
    given = case(norms=norms, dtype=dtype)
    assert isinstance(given.qkv, torch.Tensor)
    generator = torch.Generator().manual_seed(4)
    kinds = torch.randint(0, 3, (max(1, parts), *given.qkv.shape), generator=generator)
    values = torch.tensor([0.0, -0.0, 1.5])[kinds]
    given = replace(given, qkv=PartialSums(values) if parts else values[0].to(dtype))
    expected = given.expected()
    negative = torch.cat([one[one == 0] for one in expected]).signbit()
    assert not negative.all()
    # A sum of nothing but -0 is 0.
    assert negative.any() or parts
    assert same_bytes(given.done(), expected)


def test_the_reference_is_the_formula() -> None:
    given = case()
    keys, values, query = given.expected()
    assert isinstance(given.qkv, torch.Tensor)
    assert given.norms
    assert given.rotation
    heads = given.qkv.double().view(ROWS, -1, given.head_dim)
    for row in range(ROWS - 1):
        slot, position = int(given.slots[row]), int(given.positions[row])
        cosine, sine = (table[position].double() for table in given.rotation)
        for head in range(4):
            x = heads[row, head] / (heads[row, head].pow(2).mean() + EPSILON).sqrt()
            x = x * given.norms[head == 3].double()
            low, high = x[:4].clone(), x[4:8].clone()
            x[:4], x[4:8] = low * cosine - high * sine, high * cosine + low * sine
            actual = query[row, head] if head < 3 else keys[slot, 0]
            torch.testing.assert_close(actual.double(), x, rtol=1e-5, atol=1e-6)
        assert torch.equal(values[slot, 0].double(), heads[row, 4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_sums_give_the_bytes_of_the_finished_product(parts: int, dtype: torch.dtype) -> None:
    sums = of_sums(parts, case(dtype=dtype))
    assert isinstance(sums.qkv, PartialSums)
    finished = torch.empty(sums.qkv.values.shape[1:], dtype=dtype)
    add_rank_sums(sums.qkv.values, sums.qkv.bias, finished)
    assert finished.isfinite().all()
    assert same_bytes(sums.done(), replace(sums, qkv=finished).done())
    assert same_bytes(sums.done(), sums.expected())


@pytest.mark.parametrize("parts", [1, 4, 5, 16])
def test_ascending_sums_give_the_bytes_of_their_sum(parts: int) -> None:
    sums = of_sums(parts, case(), pairwise=False)
    assert isinstance(sums.qkv, PartialSums)
    total = ascending_sum(list(sums.qkv.values.numpy()))
    assert sums.qkv.bias is not None
    finished = torch.from_numpy(total) + sums.qkv.bias
    assert same_bytes(sums.done(), replace(sums, qkv=finished).done())
    assert same_bytes(sums.done(), sums.expected())
    if parts == 4:
        pairwise = PartialSums(sums.qkv.values, sums.qkv.bias)
        assert not same_bytes(sums.done(), replace(sums, qkv=pairwise).done())


def test_a_padding_row_is_written_nowhere_and_its_query_is_zero() -> None:
    given = case()
    keys, values, query = given.done()
    written = set(given.slots[:-1].tolist())
    kept = [slot for slot in range(SLOTS) if slot not in written]
    assert len(kept) == SLOTS - ROWS + 1
    assert (keys[kept] == 7).all()
    assert (values[kept] == 7).all()
    assert (query[-1] == 0).all()
    poisoned = (
        torch.full_like(given.qkv, float("nan")) if isinstance(given.qkv, torch.Tensor) else None
    )
    assert poisoned is not None
    alone = replace(given, qkv=poisoned, slots=torch.full_like(given.slots, -1)).done()
    assert all((one == value).all() for one, value in zip(alone, (7, 7, 0), strict=True))


def test_a_row_has_the_same_bytes_alone_and_in_a_batch() -> None:
    given = case()
    assert isinstance(given.qkv, torch.Tensor)
    keys, values, query = given.done()
    for row in range(ROWS - 1):
        one = slice(row, row + 1)
        alone = replace(
            given, qkv=given.qkv[one], positions=given.positions[one], slots=given.slots[one]
        ).done()
        slot = int(given.slots[row])
        assert same_bytes(
            [alone[0][slot], alone[1][slot], alone[2][0]], [keys[slot], values[slot], query[row]]
        )


def test_squares_in_another_order_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    given = case(4, 4, 64, 64)
    assert same_bytes(given.done(), given.expected())
    monkeypatch.setattr(device_form, "neighbours_first", broken.halves_first)
    assert not same_bytes(given.done(), given.expected())


def test_sums_that_are_not_rounded_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    given = of_sums(2, case(dtype=torch.float16))
    monkeypatch.setattr(device_form, "load_product", broken.load_unrounded)
    assert not same_bytes(given.done(), given.expected())


def test_no_rows_give_no_rows() -> None:
    given = case()
    none = torch.zeros(0, dtype=torch.int32)
    empty = replace(given, qkv=torch.zeros(0, 60), positions=none, slots=none)
    assert len(empty.done()[2]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qkv": torch.zeros(2, 11)}, r"qkv is torch.float32 \[2, 11\], expected .*\[2, 16\]"),
        ({"qkv": torch.zeros(2, 16).half()}, r"qkv is torch.float16"),
        ({"qkv": PartialSums(torch.zeros(1, 3, 16))}, r"qkv is .*\[1, 3, 16\]"),
        ({"slots": torch.zeros(2)}, r"slots is torch.float32"),
        ({"positions": torch.zeros(3, dtype=torch.int32)}, r"positions is .*\[3\]"),
        ({"values": torch.zeros(5, 1, 3)}, r"values is .*\[5, 1, 3\]"),
        ({"keys": torch.zeros(5, 1, 4).half()}, r"keys is torch.float16"),
        ({"rotation": (torch.zeros(5, 3), torch.zeros(5, 3))}, "cosines have 3 columns"),
        ({"rotation": (torch.zeros(5, 2), torch.zeros(5, 1))}, r"sines is .*\[5, 1\]"),
        ({"norms": (torch.zeros(4), torch.zeros(3))}, r"key norm is .*\[3\]"),
    ],
)
def test_unfit_arguments_are_named(change: dict[str, Any], message: str) -> None:
    whole = torch.zeros(2, dtype=torch.int32)
    fit: dict[str, Any] = {"qkv": torch.zeros(2, 16), "positions": whole, "slots": whole}
    fit |= {"keys": torch.zeros(5, 1, 4), "values": torch.zeros(5, 1, 4)}
    fit |= {"query": torch.zeros(2, 2, 4), "rotation": None}
    spectrie_kernels.rotate_write(**fit)
    with pytest.raises(ValueError, match=message):
        spectrie_kernels.rotate_write(**(fit | change))
