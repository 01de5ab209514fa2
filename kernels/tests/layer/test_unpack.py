"""Sections of a packed step at fixed addresses, and what is behind them."""

from __future__ import annotations

import random

import pytest
import torch

import spectrie_kernels
from kernels.tests.layer import broken
from spectrie_kernels import StepArray, StepArrays, reference
from spectrie_kernels.device import unpack as device_form


def packed(sections: list[list[int]]) -> torch.Tensor:
    """The table and the sections, each from a multiple of 8 words."""

    def padded(values: list[int]) -> list[int]:
        return values + [99] * (-(-max(1, len(values)) // 8) * 8 - len(values))

    table: list[int] = []
    words: list[int] = []
    begin = len(padded([0] * 2 * len(sections)))
    for values in sections:
        table += [begin + len(words), len(values)]
        words += padded(values)
    return torch.tensor(padded(table) + words, dtype=torch.int32)


SECTIONS = [[5, 6, 7], [1, 2, 3, 4], [], [0, 3, 9]]
ARRAYS = [
    (StepArray(0, 5, fill=-1), [5, 6, 7, -1, -1], 3),
    (StepArray(1, 3, width=2), [[1, 2], [3, 4], [0, 0]], 2),
    (StepArray(3, 6, fill=None), [0, 3, 9, 9, 9, 9], 3),
    (StepArray(2, 2, fill=None), [0, 0], 0),
    (StepArray(2, 2, fill=-1), [-1, -1], 0),
    (StepArray(1, 2), [1, 2], 2),
    (StepArray(0, 4, keeps=True), [5, 6, 7, 0], 3),
]


@pytest.mark.parametrize("form", [spectrie_kernels.unpack, reference.unpack])
def test_sections_are_copied_counted_and_filled(form: object) -> None:
    arrays = StepArrays.of([one for one, _, _ in ARRAYS], "cpu")
    assert callable(form)
    form(packed(SECTIONS), arrays)
    for index, (_, words, count) in enumerate(ARRAYS):
        assert arrays[index].tolist() == words
        assert arrays.count(index).tolist() == [count]
        assert arrays.words_of(index).data_ptr() % 32 == arrays.words.data_ptr() % 32


def test_a_later_step_leaves_nothing_of_an_earlier_one() -> None:
    source = random.Random(3)
    lengths = [1, 9, 40, 2500]
    specs = [StepArray(i, length, fill=-1) for i, length in enumerate(lengths)]
    arrays = StepArrays.of(specs, "cpu")
    for _ in range(6):
        sections = [
            [source.randrange(1000) for _ in range(source.randrange(room + 2))] for room in lengths
        ]
        words = packed(sections)
        spectrie_kernels.unpack(words, arrays)
        plain = StepArrays.of(specs, "cpu")
        reference.unpack(words, plain)
        assert torch.equal(arrays.words, plain.words)
        assert torch.equal(arrays.counts, plain.counts)


def test_new_arrays_hold_their_fill_and_keep_their_addresses() -> None:
    arrays = StepArrays.of([one for one, _, _ in ARRAYS], "cpu")
    assert arrays[0].tolist() == [-1] * 5
    before = [arrays[index].data_ptr() for index in range(len(ARRAYS))]
    spectrie_kernels.unpack(packed(SECTIONS), arrays)
    assert [arrays[index].data_ptr() for index in range(len(ARRAYS))] == before


def test_words_that_are_not_filled_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_form, "_unpack_kernel", broken.unpack_without_fill)
    arrays = StepArrays.of([StepArray(0, 4, fill=-1)], "cpu")
    for section in ([1, 2, 3], [4]):
        spectrie_kernels.unpack(packed([section]), arrays)
    assert arrays[0].tolist() != [4, -1, -1, -1]


def test_unfit_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="section -1"):
        StepArray(-1, 2)
    with pytest.raises(ValueError, match="there is no array"):
        StepArrays.of([], "cpu")
    with pytest.raises(ValueError, match=r"packed is torch\.int64"):
        spectrie_kernels.unpack(torch.zeros(8).long(), StepArrays.of([StepArray(0, 2)], "cpu"))
