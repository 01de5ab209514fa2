"""A packed step as tensors, for tests."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie._core import DeviceShape, Engine, PackedSection, PackedStep, PackedWork, Plan
from spectrie_kernels import DrawRows

__all__ = ["Packed", "pack"]

FLOATS = "temperature top_p min_p typical_p repetition frequency presence bias_value".split()
CUTS = {"top_k": 1, "top_p": 2, "typical_p": 4}

Int32 = NDArray[np.int32]


class Packed:
    """A packed step and its words."""

    def __init__(self, step: PackedStep, words: Int32) -> None:
        self.step = step
        self.words = words

    def section(self, section: PackedSection) -> Int32:
        """The words of a section."""
        begin, length = self.step.section(section)
        return self.words[begin : begin + length]

    def work(self, window_index: int, which: PackedWork) -> Int32:
        """The items of a list of attention's work."""
        begin, length = self.step.work(window_index, which)
        width = 4 if which == PackedWork.COMBINED else 8
        return self.words[begin : begin + length].reshape(-1, width)

    def draw_rows(self, vocabulary: int) -> DrawRows:
        """What decides the tokens, as `spectrie_kernels.draw` takes it."""
        columns = {}
        for section in PackedSection:
            if PackedSection.SEED <= section <= PackedSection.ALLOWED:
                columns[section.name.lower()] = torch.from_numpy(self.section(section))
        for name in FLOATS:
            columns[name] = columns[name].view(torch.float32)
        columns["seed"] = columns["seed"].view(torch.int64)
        columns["allowed"] = columns["allowed"].view(-1, -(-vocabulary // 32))
        cuts = frozenset(name for name, bit in CUTS.items() if self.step.cuts & bit)
        rows = DrawRows(**columns, cuts=cuts)
        assert rows.has_lists == self.step.has_lists
        return rows


def pack(
    engine: Engine,
    plan: Plan,
    shape: DeviceShape,
    part_rows: int = 64,
    prompt_rows: int = 64,
    capacity: int = 1 << 20,
) -> Packed:
    """Packs the open plan into fresh memory, whose every word was 77."""
    words = np.full(capacity, 77, np.int32)
    step = engine.pack(plan, shape, part_rows, prompt_rows, words.ctypes.data, capacity)
    assert step.words <= capacity
    assert (words[step.words :] == 77).all()
    return Packed(step, words[: step.words].copy())
