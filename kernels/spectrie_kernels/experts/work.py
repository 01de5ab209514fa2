"""Which rows each expert computes in a step: arrays that the device fills."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie_kernels.linear_tiles import LinearTiles
from spectrie_kernels.sum_order import SumOrder
from spectrie_kernels.tables.tile_table import current_table

__all__ = ["ITEM_WORDS", "ExpertWork"]

ITEM_WORDS = 4
"""Words of a tile: expert, its first entry in `choices`, entries, nothing."""
_LOWEST = 16
_HIGHEST = 128
_HIGHEST_FLOAT32 = 32
_FIRST_WORDS = 8


@dataclass(frozen=True, slots=True)
class ExpertWork:
    """The choices of all rows by expert, cut into tiles of rows.

    A choice is numbered row * num_chosen + rank: rank 0 is the row's expert of the highest score.
    Shapes follow from numbers of rows and experts alone; how much of the arrays counts stands on the device.

    Attributes:
        num_experts: Experts of the layer.
        num_chosen: Experts of a row.
        height: Most choices of a tile; speed alone depends on it.
        count: int32 [1], how many tiles count.
        tiles: int32 [any, 4]: expert, first place in `choices`, number of choices, nothing.
        choices: int32 [rows * num_chosen]: choices in the order of their experts, of one expert
            ascending; those of rows that stand for none are left out.
    """

    num_experts: int
    num_chosen: int
    height: int
    count: torch.Tensor
    tiles: torch.Tensor
    choices: torch.Tensor

    @classmethod
    def within(
        cls,
        memory: torch.Tensor,
        *,
        rows: int,
        num_experts: int,
        num_chosen: int,
        element_bytes: int,
    ) -> ExpertWork:
        """Returns arrays for steps of `rows` rows inside `memory`.

        Args:
            memory: int32, contiguous, at least `words` elements.
            rows: Rows of the step.
            num_experts: Experts of the layer.
            num_chosen: Experts of a row, at most as many.
            element_bytes: Of the weights.

        Raises:
            ValueError: The memory does not do, or there are fewer experts than are chosen.
        """
        if not 1 <= num_chosen <= num_experts:
            raise ValueError(f"num_chosen is {num_chosen}, expected 1 to {num_experts}")
        needed = cls.words(rows, num_experts, num_chosen)
        if memory.dtype != torch.int32 or memory.numel() < needed or not memory.is_contiguous():
            raise ValueError(
                f"memory is {memory.dtype} of {memory.numel()} elements, expected int32 of {needed} or "
                "more, contiguous"
            )
        total = rows * num_chosen
        height = _height(rows, num_experts, num_chosen, element_bytes)
        tiles = _most_tiles(total, num_experts, height)
        end = _FIRST_WORDS + tiles * ITEM_WORDS
        return cls(
            num_experts,
            num_chosen,
            height,
            memory[:1],
            memory[_FIRST_WORDS:end].view(tiles, ITEM_WORDS),
            memory[end : end + total],
        )

    @staticmethod
    def words(rows: int, num_experts: int, num_chosen: int) -> int:
        """Returns the memory for steps of up to `rows` rows."""
        total = rows * num_chosen
        return _FIRST_WORDS + _most_tiles(total, num_experts, _LOWEST) * ITEM_WORDS + total

    @property
    def rows(self) -> int:
        """Rows of the step."""
        return int(self.choices.shape[0]) // self.num_chosen

    def product_tiles(self, order: SumOrder, element_bytes: int) -> LinearTiles:
        """Returns untuned tiles of `height` rows for products of this order."""
        return LinearTiles.of_height(self.height, order, element_bytes)


def _height(rows: int, num_experts: int, num_chosen: int, element_bytes: int) -> int:
    """Twice the rows that an expert has on average, so that most experts are read once."""
    one_width = current_table().one_width
    if one_width is not None and element_bytes == 2:
        return one_width
    wanted = max(1, min(rows, 2 * rows * num_chosen // num_experts))
    highest = _HIGHEST if element_bytes == 2 else _HIGHEST_FLOAT32
    return max(_LOWEST, min(highest, 1 << (wanted - 1).bit_length()))


def _most_tiles(total: int, num_experts: int, height: int) -> int:
    """Most tiles that `total` choices are cut into: each expert's last one may be not full."""
    return min(num_experts, total) + total // height
