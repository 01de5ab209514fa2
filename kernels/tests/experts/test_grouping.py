"""Choices by expert: every real one once, in tiles of one expert, from counts on the device."""

from __future__ import annotations

import pytest
import torch

from kernels.tests.experts import broken
from kernels.tests.experts.mixtures import random_ids, work_of
from spectrie_kernels import ExpertWork, group_choices, reference
from spectrie_kernels.device.experts import choice as device_form

SHAPES = [(1, 8, 2), (5, 5, 5), (17, 128, 8), (64, 3, 2), (300, 20, 4), (700, 2, 1)]


def naive(ids: torch.Tensor, num_experts: int, height: int) -> tuple[list[int], list[list[int]]]:
    """Choices by expert, and tiles, one choice after the other."""
    flat = ids.flatten().tolist()
    choices: list[int] = []
    tiles = []
    for expert in range(num_experts):
        own = [place for place, one in enumerate(flat) if one == expert]
        for first in range(0, len(own), height):
            number = min(height, len(own) - first)
            tiles.append([expert, len(choices) + first, number])
        choices += own
    return choices, tiles


def found(work: ExpertWork) -> tuple[list[int], list[list[int]]]:
    count = int(work.count)
    tiles = work.tiles[:count, :3].tolist()
    return work.choices[: sum(tile[2] for tile in tiles)].tolist(), tiles


@pytest.mark.parametrize("element_bytes", [2, 4])
@pytest.mark.parametrize(("rows", "experts", "chosen"), SHAPES)
def test_every_choice_is_in_one_tile_of_its_expert(
    rows: int, experts: int, chosen: int, element_bytes: int
) -> None:
    ids = random_ids(rows, experts, chosen)
    ids[rows // 2 :: 3] = -1
    work = work_of(ids, experts, element_bytes)
    expected = naive(ids, experts, work.height)
    assert found(work) == expected
    reference.group_choices(ids, work)
    assert found(work) == expected


def test_all_rows_may_choose_the_same_expert_or_none() -> None:
    for expert in (0, 6):
        ids = torch.full((40, 1), expert, dtype=torch.int32)
        assert found(work_of(ids, 7)) == naive(ids, 7, 16)
    assert found(work_of(torch.full((40, 1), -1, dtype=torch.int32), 7)) == ([], [])
    assert int(work_of(torch.empty(0, 2, dtype=torch.int32), 7).count) == 0


@pytest.mark.parametrize("rows", [1, 5, 16, 64, 65, 512, 4096])
def test_arrays_hold_whatever_rows_choose_and_no_step_needs_more_than_a_larger_one(
    rows: int,
) -> None:
    for experts, chosen in ((2, 1), (8, 2), (128, 8)):
        words = ExpertWork.words(rows, experts, chosen)
        assert words <= ExpertWork.words(rows + 1, experts, chosen)
        memory = torch.zeros(words, dtype=torch.int32)
        for element_bytes in (2, 4):
            work = ExpertWork.within(
                memory,
                rows=rows,
                num_experts=experts,
                num_chosen=chosen,
                element_bytes=element_bytes,
            )
            # Each expert has one choice, and the first all others.
            total = rows * chosen
            alone = min(experts, total)
            first = total - alone + 1
            assert alone - 1 + -(-first // work.height) <= len(work.tiles)
            assert 16 <= work.height <= (128 if element_bytes == 2 else 32)


def test_rows_that_stand_for_none_as_rows_of_an_expert_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = random_ids(6, 8, 2)
    monkeypatch.setattr(device_form, "_group_kernel", broken.group_with_padding)
    assert found(work_of(ids, 8)) == naive(ids, 8, 16)
    ids[2] = -1
    assert found(work_of(ids, 8)) != naive(ids, 8, 16)


def test_unfit_arguments_are_named() -> None:
    work = work_of(random_ids(3, 8, 2), 8)
    with pytest.raises(ValueError, match=r"ids is .* \[2, 2\], expected .* \[3, 2\]"):
        group_choices(random_ids(2, 8, 2), work)
    sizes = {"rows": 3, "num_experts": 8, "num_chosen": 2, "element_bytes": 4}
    with pytest.raises(ValueError, match=r"memory is torch.int32 of 9 elements, expected int32 of"):
        ExpertWork.within(torch.zeros(9, dtype=torch.int32), **sizes)
    with pytest.raises(ValueError, match="num_chosen is 9, expected 1 to 8"):
        ExpertWork.within(torch.zeros(99, dtype=torch.int32), **sizes | {"num_chosen": 9})
