"""The packing check finds products whose rows depend on their company."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear as product

from spectrie.model.linear import Linear, Packing, choose_packing, pack


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(96, 48), (200, 32), (30, 50)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_chosen_packing_computes_the_product(
    dtype: torch.dtype, shape: tuple[int, int], with_bias: bool
) -> None:
    torch.manual_seed(0)
    weight = torch.randn(shape).to(dtype)
    bias = torch.randn(shape[0]).to(dtype) if with_bias else None
    packing = choose_packing(weight, bias)
    assert packing.exact
    x = torch.randn(20, shape[1]).to(dtype)
    want = product(x.double(), weight.double(), None if bias is None else bias.double())
    tolerance = 1e-4 if dtype == torch.float32 else 0.2
    for kind in (packing, Packing("tiles", 8), Packing("plain")):
        got = pack(weight, bias, kind)(x)
        torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)


def broken(
    fails: set[str],
) -> tuple[list[Packing], object]:
    """A maker whose products of some packings add the number of rows to the last one."""
    tried: list[Packing] = []

    def make(weight: torch.Tensor, bias: torch.Tensor | None, packing: Packing) -> Linear:
        tried.append(packing)
        real = pack(weight, bias, Packing("tiles", 8))

        def wrong(x: torch.Tensor) -> torch.Tensor:
            y = real(x)
            if packing.kind in fails and len(x) == 7:
                y[-1, 0] = torch.nextafter(y[-1, 0], torch.tensor(1e9))
            return y

        return wrong

    return tried, make


def test_a_packing_with_one_wrong_bit_at_one_row_count_is_passed_over() -> None:
    tried, make = broken({"onednn"})
    weight = torch.randn(16, 8)
    assert choose_packing(weight, None, 16, make=make) == Packing("tiles", 16)  # type: ignore[arg-type]
    assert tried[-1].kind == "tiles"


def test_without_an_independent_packing_the_answer_is_plain() -> None:
    _, make = broken({"onednn", "tiles"})
    packing = choose_packing(torch.randn(16, 8), None, 16, make=make)  # type: ignore[arg-type]
    assert packing == Packing("plain")
    assert not packing.exact


def test_a_product_that_depends_on_the_threads_is_passed_over() -> None:
    def make(weight: torch.Tensor, bias: torch.Tensor | None, packing: Packing) -> Linear:
        real = pack(weight, bias, Packing("tiles", 8))
        return lambda x: real(x) + float(torch.get_num_threads())

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert not choose_packing(torch.randn(16, 8), None, 16, make=make).exact
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
