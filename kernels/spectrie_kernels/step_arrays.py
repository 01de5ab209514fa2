"""Arrays of a step at fixed addresses, to which the sections of a packed step are copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["StepArray", "StepArrays"]

_ALIGNED_WORDS = 8


@dataclass(frozen=True, slots=True)
class StepArray:
    """One array: which section of the packed step fills it, and what stands behind that.

    Attributes:
        section: Number of the section.
        capacity: Entries that the array has room for.
        width: Words (int32) of an entry.
        fill: The word behind the section's entries; None repeats the section's last word, or 0 for
            an empty one, as a list of begins needs it.
        keeps: Whether what is behind the entries stays as it was, which is cheaper: for lists whose
            readers know their length.
    """

    section: int
    capacity: int
    width: int = 1
    fill: int | None = 0
    keeps: bool = False

    def __post_init__(self) -> None:
        if self.section < 0 or self.capacity < 1 or self.width < 1:
            raise ValueError(
                f"section {self.section} with {self.capacity} entries of {self.width} words: the "
                "section must not be negative, the others positive"
            )

    @property
    def words(self) -> int:
        """Words of the whole array."""
        return self.capacity * self.width


@dataclass(frozen=True, slots=True)
class StepArrays:
    """Arrays in one piece of device memory, each from a multiple of 32 bytes.

    Attributes:
        specs: The arrays, in their order.
        begins: First word of each in `words`.
        words: int32, all arrays.
        counts: int32 [arrays], entries that the last `unpack` copied to each.
        table: int32 [arrays, 8]: section, first word, words, fill, whether the last word is
            repeated instead, width, whether words are kept instead, 0.
    """

    specs: tuple[StepArray, ...]
    begins: tuple[int, ...]
    words: torch.Tensor
    counts: torch.Tensor
    table: torch.Tensor

    @classmethod
    def of(cls, specs: Sequence[StepArray], device: torch.device | str) -> StepArrays:
        """Allocates the arrays; all of them hold their fill.

        Raises:
            ValueError: There is no array.
        """
        if not specs:
            raise ValueError("there is no array to unpack to")
        begins, end = [], 0
        for one in specs:
            begins.append(end)
            end += -(-one.words // _ALIGNED_WORDS) * _ALIGNED_WORDS
        table = [
            [
                one.section,
                begin,
                one.words,
                one.fill or 0,
                one.fill is None,
                one.width,
                one.keeps,
                0,
            ]
            for one, begin in zip(specs, begins, strict=True)
        ]
        words = torch.zeros(end, dtype=torch.int32, device=device)
        for one, begin in zip(specs, begins, strict=True):
            words[begin : begin + one.words] = one.fill or 0
        counts = torch.zeros(len(specs), dtype=torch.int32, device=device)
        on_device = torch.tensor(table, dtype=torch.int32).to(device)
        return cls(tuple(specs), tuple(begins), words, counts, on_device)

    def __getitem__(self, index: int) -> torch.Tensor:
        """int32 [capacity] of one array, [capacity, width] where entries have several words."""
        words = self.words_of(index)
        width = self.specs[index].width
        return words if width == 1 else words.view(-1, width)

    def words_of(self, index: int) -> torch.Tensor:
        """int32 [words] of one array."""
        begin = self.begins[index]
        return self.words[begin : begin + self.specs[index].words]

    def count(self, index: int) -> torch.Tensor:
        """int32 [1], where the number of entries of one array stands."""
        return self.counts[index : index + 1]
