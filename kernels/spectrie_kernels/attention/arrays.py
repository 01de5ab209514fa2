"""What attention needs of a step that is captured: arrays at fixed addresses, filled before each."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spectrie_kernels.attention.key_order import KeyOrder
from spectrie_kernels.attention.layout import DeviceWork

__all__ = ["AttentionArrays", "WorkArrays"]

# Programs of one launch: some for each multiprocessor of the largest devices, which share the items.
_PROGRAMS = 1056


@dataclass(frozen=True, slots=True)
class WorkArrays:
    """The work of one window: int32, contiguous, as in `AttentionWork`, with room behind.

    Attributes:
        part_items: [any, 8].
        combined: [any, 4].
        prompt_items: [any, 8].
        counts: [3]: how many of each count in the step.
    """

    part_items: torch.Tensor
    combined: torch.Tensor
    prompt_items: torch.Tensor
    counts: torch.Tensor

    def __post_init__(self) -> None:
        widths = {"part_items": 8, "combined": 4, "prompt_items": 8}
        for name, width in widths.items():
            one: torch.Tensor = getattr(self, name)
            if one.dim() != 2 or one.shape[1] != width:
                raise ValueError(f"{name} has shape {list(one.shape)}, expected [any, {width}]")
        if list(self.counts.shape) != [3]:
            raise ValueError(f"counts has shape {list(self.counts.shape)}, expected [3]")
        for name in (*widths, "counts"):
            one = getattr(self, name)
            if one.dtype != torch.int32 or not one.is_contiguous():
                raise ValueError(f"{name} is {one.dtype}, expected int32, contiguous")


@dataclass(frozen=True, slots=True)
class AttentionArrays:
    """A step whose launches are the same whatever it holds: `tree_attention` takes it as a layout.

    Grids follow from the arrays' room and from `part_rows` and `prompt_rows`, which whoever packs the
    step must use too. What the step holds is read on the device: an array's content, and how much of it
    counts. Rows that no item names keep what `out` held.

    Attributes:
        group: Query heads of a key-value head.
        page_size: Slots in a page.
        page_ids: int32, as in `AttentionRows`.
        row_position: [rows] int32.
        path_slots: int32, slots of each tree row's ancestors in this step.
        work: By window; None for layers that see all keys.
    """

    group: int
    page_size: int
    page_ids: torch.Tensor
    row_position: torch.Tensor
    path_slots: torch.Tensor
    work: dict[int | None, DeviceWork]

    @classmethod
    def of(
        cls,
        work: dict[int | None, WorkArrays],
        *,
        group: int,
        kv_heads: int,
        heights: tuple[int, int],
        page_size: int,
        page_ids: torch.Tensor,
        row_position: torch.Tensor,
        path_slots: torch.Tensor,
    ) -> AttentionArrays:
        """Returns the arrays of a captured step.

        Args:
            work: By window of the model's layers.
            group: Query heads of a key-value head, on this rank.
            kv_heads: Key-value heads of the whole model, before ranks share them.
            heights: Of the tiles, of parts and of prompts (`AttentionTiles.heights`).
            page_size: Slots in a page.
            page_ids: int32.
            row_position: [rows] int32.
            path_slots: int32.

        Raises:
            ValueError: A number is not positive.
        """
        if group < 1 or page_size < 1:
            raise ValueError(f"group is {group} and page_size {page_size}, must be positive")
        on_device = {}
        for window, one in work.items():
            order = KeyOrder.of(kv_heads, window)
            on_device[window] = DeviceWork(
                order,
                one.part_items,
                one.combined,
                one.prompt_items,
                one.counts,
                *heights,
                order.most_splits,
                max(1, _PROGRAMS // kv_heads),
            )
        return cls(group, page_size, page_ids, row_position, path_slots, on_device)
