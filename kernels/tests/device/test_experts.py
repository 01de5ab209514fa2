"""Mixtures of experts on a device: what the interpreter cannot show, as its product is not the device's."""

from __future__ import annotations

import pytest
import torch

from kernels.tests.ascending import sensitive, signs
from spectrie_kernels import (
    ExpertWeight,
    ExpertWork,
    LinearWeight,
    add_experts,
    choose_experts,
    expert_linear,
    group_choices,
    linear,
    reference,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROWS = [1, 2, 15, 16, 17, 64, 65, 128, 256, 512]
# Experts, those of a row, out, in.
SHAPES = {"few": (8, 2, 512, 256), "many": (128, 8, 96, 2048)}
DTYPES = [torch.bfloat16, torch.float32]


def grouped(ids: torch.Tensor, num_experts: int, dtype: torch.dtype) -> ExpertWork:
    rows, chosen = ids.shape
    words = ExpertWork.words(rows, num_experts, chosen)
    work = ExpertWork.within(
        torch.empty(words, dtype=torch.int32, device="cuda"),
        rows=rows,
        num_experts=num_experts,
        num_chosen=chosen,
        element_bytes=dtype.itemsize,
    )
    return group_choices(ids, work)


def equal_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def chosen_of(rows: int, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, experts and shares; each third row stands for none."""
    experts, chosen, _, _ = SHAPES[name]
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(512, experts, generator=generator)[:rows].contiguous().cuda()
    tokens = torch.arange(rows, dtype=torch.int32, device="cuda")
    tokens[2::3] = -1
    ids = torch.empty(rows, chosen, dtype=torch.int32, device="cuda")
    shares = torch.empty(rows, chosen, device="cuda")
    choose_experts(scores, tokens, ids, shares, normalised=False)
    wanted, near = torch.empty_like(ids), torch.empty_like(shares)
    reference.choose_experts(scores, tokens, wanted, near, False)
    assert torch.equal(ids, wanted)
    torch.testing.assert_close(shares, near)
    return scores, ids, shares


@pytest.mark.parametrize("name", SHAPES)
def test_choices_are_those_of_the_reference_in_tiles_of_their_expert(name: str) -> None:
    _, whole, shares = chosen_of(512, name)
    for rows in ROWS:
        _, ids, own = chosen_of(rows, name)
        assert torch.equal(ids, whole[:rows])
        assert equal_bytes(own, shares[:rows])
        work = grouped(ids, SHAPES[name][0], torch.bfloat16)
        count = int(work.count)
        tiles, choices = work.tiles[:count, :3].clone(), work.choices.clone()
        reference.group_choices(ids, work)
        assert count == int(work.count)
        assert torch.equal(tiles, work.tiles[:count, :3])
        real = int((ids >= 0).sum())
        assert torch.equal(choices[:real], work.choices[:real])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_row_has_the_same_bytes_in_every_batch(name: str, dtype: torch.dtype) -> None:
    experts, chosen, out_features, in_features = SHAPES[name]
    order = ExpertWeight.order_of(out_features, in_features, chosen)
    values = sensitive(experts * out_features, in_features, 1, dtype)
    weight = ExpertWeight(values.view(experts, out_features, in_features).cuda(), order)
    x = signs(512, in_features, 3, dtype).cuda()
    # Half of the rows take the same experts.
    generator = torch.Generator().manual_seed(2)
    ids = torch.stack([torch.randperm(experts, generator=generator)[:chosen] for _ in range(512)])
    ids[::2] = torch.arange(chosen)
    ids = ids.int().cuda()
    shares = torch.rand(512, chosen, generator=generator).cuda()

    def mixed(rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        own = ids[rows].contiguous()
        results = torch.empty(own.numel(), out_features, device="cuda")
        expert_linear(x[rows].contiguous(), weight, grouped(own, experts, dtype), results)
        out = torch.empty(len(own), out_features, device="cuda")
        return results, add_experts(results, own, shares[rows].contiguous(), out)

    results, sums = mixed(slice(0, 512))
    wrong = []
    for rows in ROWS:
        for part in (slice(0, rows), slice(512 - rows, 512)):
            given, total = mixed(part)
            same = equal_bytes(given, results[part.start * chosen : part.stop * chosen])
            if not same or not equal_bytes(total, sums[part]):
                wrong.append(part)
    assert wrong == []
    first = LinearWeight(weight.values[int(ids[1, 0])], order)
    alone = linear(x[1:2].contiguous(), first, torch.empty(1, out_features, device="cuda"))
    assert equal_bytes(alone[0], results[chosen])
