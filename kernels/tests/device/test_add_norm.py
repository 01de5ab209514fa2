"""Residual and norm on a device, whose compiler lays a sum out among threads."""

from __future__ import annotations

import pytest
import torch

from kernels.tests.ascending import sensitive
from spectrie_kernels import PartialSums, add_norm, reference

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROWS = 512


def done(
    residual: torch.Tensor, delta: PartialSums | None, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    after = residual.clone()
    return after, add_norm(after, delta, weight, 1e-5, torch.empty_like(after))


@pytest.mark.parametrize("features", [576, 896, 4096, 8192])
@pytest.mark.parametrize("parts", [None, 1, 8])
def test_a_row_has_the_same_bytes_in_every_batch(parts: int | None, features: int) -> None:
    residual = sensitive(ROWS, features, 1, torch.float32).cuda()
    weight = torch.rand(features, device="cuda") + 0.5
    delta = None
    if parts is not None:
        values = sensitive(parts * ROWS, features, 2, torch.float32)
        delta = PartialSums(values.view(parts, ROWS, features).cuda())
    together = done(residual, delta, weight)
    for rows in (1, 2, 15, 16, 17, 64, 65, 511):
        own = delta and PartialSums(delta.values[:, :rows].contiguous())
        alone = done(residual[:rows], own, weight)
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one.view(torch.int32), other[:rows].view(torch.int32))


@pytest.mark.parametrize("features", [576, 4096])
def test_every_number_of_parts_gives_the_bytes_of_their_sum(features: int) -> None:
    residual = torch.randn(17, features, device="cuda")
    weight = torch.rand(features, device="cuda") + 0.5
    values = sensitive(8 * 17, features, 2, torch.float32).view(8, 17, features).cuda()
    expected = done(residual, PartialSums(values), weight)
    while values.shape[0] > 1:
        values = values[::2] + values[1::2]
        actual = done(residual, PartialSums(values), weight)
        for one, other in zip(actual, expected, strict=True):
            assert torch.equal(one.view(torch.int32), other.view(torch.int32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_is_near_the_reference(dtype: torch.dtype) -> None:
    residual, delta = torch.randn(2, 33, 576, device="cuda")
    weight = torch.rand(576, device="cuda") + 0.5
    sums = PartialSums(delta[None].contiguous())
    out = torch.empty(33, 576, dtype=dtype, device="cuda")
    expected = reference.add_norm(residual.clone(), sums, weight, 1e-5, out.clone())
    actual = add_norm(residual, sums, weight, 1e-5, out)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(actual, expected, rtol=4 * eps, atol=4 * eps)
