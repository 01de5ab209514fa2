"""Tokens that the step before drew, put where a packed step names them."""

from __future__ import annotations

import random

import pytest
import torch

import spectrie_kernels
from kernels.tests.layer import broken
from kernels.tests.layer.test_unpack import packed
from spectrie_kernels import reference
from spectrie_kernels.device import take_drawn as device_form

DRAWN = torch.tensor([70, 71, -1, -2, 74], dtype=torch.int32)
TOKENS = [-2, 5, -6, -1, -4, 0, -5, -3, -2]
TAKEN = [70, 5, 74, -1, -1, 0, -1, 71, 70]
"""Where nothing could be drawn, a row stands for none."""


@pytest.mark.parametrize("form", [spectrie_kernels.take_drawn, reference.take_drawn])
@pytest.mark.parametrize("section", [0, 2])
def test_named_tokens_are_taken_and_others_stay(form: object, section: int) -> None:
    assert callable(form)
    sections = [[-3, 8], [-4], [-2]]
    sections[section] = TOKENS
    words = packed(sections)
    form(words, section, DRAWN)
    sections[section] = TAKEN
    assert torch.equal(words, packed(sections))


def test_any_number_of_rows_gives_what_plain_torch_does() -> None:
    source = random.Random(7)
    for rows in (0, 1, 8, 9, 511, 512, 513, 1100):
        drawn = torch.tensor([source.randrange(-2, 1000) for _ in range(rows + 1)]).int()
        tokens = [source.choice([-1, 3, -2 - source.randrange(rows + 1)]) for _ in range(rows)]
        words, plain = packed([[1], tokens]), packed([[1], tokens])
        spectrie_kernels.take_drawn(words, 1, drawn)
        reference.take_drawn(plain, 1, drawn)
        assert torch.equal(words, plain)


def test_tokens_that_stay_below_nothing_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_form, "_take_drawn_kernel", broken.take_drawn_as_it_is)
    words = packed([TOKENS])
    spectrie_kernels.take_drawn(words, 0, DRAWN)
    assert not torch.equal(words, packed([TAKEN]))


def test_unfit_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="section -1"):
        spectrie_kernels.take_drawn(packed([TOKENS]), -1, DRAWN)
    with pytest.raises(ValueError, match=r"drawn is torch\.int64"):
        spectrie_kernels.take_drawn(packed([TOKENS]), 0, DRAWN.long())
