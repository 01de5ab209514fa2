"""What attention needs of one step, on the device: pages, paths, and the work of its programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie_kernels.attention.key_order import KeyOrder
from spectrie_kernels.attention.rows import AttentionRows, Int32
from spectrie_kernels.attention.tiles import AttentionTiles
from spectrie_kernels.attention.work import AttentionWork

__all__ = ["AttentionLayout", "DeviceWork"]

_ALIGNED_INTEGERS = 8


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """`AttentionWork` for one window, its items on the device.

    Attributes:
        order: Of the model and the window.
        part_items: As in `AttentionWork`, with room for more behind those that count.
        combined: The same.
        prompt_items: The same.
        counts: int32 [3]: how many of `part_items`, `combined` and `prompt_items` count; read on the
            device.
        part_rows: As in `AttentionWork`.
        prompt_rows: The same.
        most_splits: The same.
        programs: Most programs of a launch that share the items; None for one an item.
    """

    order: KeyOrder
    part_items: torch.Tensor
    combined: torch.Tensor
    prompt_items: torch.Tensor
    counts: torch.Tensor
    part_rows: int
    prompt_rows: int
    most_splits: int
    programs: int | None = None

    def workspace(self, heads: int, head_dim: int) -> int:
        """float32 elements that the parts of the split form take: sums, maxima and vectors."""
        # A request's rows in a later unit may have one split that others do not have.
        parts = self.order.max_parts + 1
        return parts * self.combined.shape[0] * heads * (head_dim + 2)


@dataclass(frozen=True, slots=True)
class AttentionLayout:
    """One step, made once for all layers.

    Attributes:
        rows: The step's integers, on the host.
        group: Query heads of a key-value head.
        page_ids: int32, as in `rows`.
        row_position: [rows] int32.
        path_slots: int32, slots of each tree row's ancestors in this step.
        work: By window; None for layers that see all keys.
    """

    rows: AttentionRows
    group: int
    page_ids: torch.Tensor
    row_position: torch.Tensor
    path_slots: torch.Tensor
    work: dict[int | None, DeviceWork]

    @property
    def page_size(self) -> int:
        """Slots in a page."""
        return self.rows.page_size

    @classmethod
    def of(
        cls,
        rows: AttentionRows,
        *,
        group: int,
        kv_heads: int,
        tiles: AttentionTiles | None = None,
        windows: Iterable[int | None] = (None,),
        device: torch.device | str = "cpu",
    ) -> AttentionLayout:
        """Derives a step's work and copies it to the device, all of it at once.

        Args:
            rows: The step.
            group: Query heads of a key-value head, on this rank.
            kv_heads: Key-value heads of the whole model, before ranks share them: with positions and
                window they set the order of additions.
            tiles: Of `AttentionTiles.of`; None takes the lowest, which suit float32.
            windows: Of the model's layers: keys that a row sees, its own included; None for all.
            device: Where the kernels run.

        Raises:
            ValueError: A number is not positive.
        """
        if group < 1:
            raise ValueError(f"group is {group}, must be positive")
        orders = {window: KeyOrder.of(kv_heads, window) for window in dict.fromkeys(windows)}
        if tiles is None:
            tiles = AttentionTiles(16, 16)
        work = {
            window: AttentionWork.of(rows, order, group, tiles) for window, order in orders.items()
        }
        _, paths = rows.paths()
        arrays: list[NDArray[Any]] = [rows.page_ids, rows.positions(), paths]
        for one in work.values():
            items_of = [one.part_items, one.combined, one.prompt_items]
            arrays += [*items_of, np.array([len(part) for part in items_of])]
        page_ids, positions, path_slots, *items = _on_device(arrays, torch.device(device))
        on_device = {}
        for (window, one), at in zip(work.items(), range(0, len(items), 4), strict=True):
            on_device[window] = DeviceWork(
                orders[window],
                items[at].view(-1, 8),
                items[at + 1].view(-1, 4),
                items[at + 2].view(-1, 8),
                items[at + 3],
                one.part_rows,
                one.prompt_rows,
                one.most_splits,
            )
        return cls(rows, group, page_ids, positions, path_slots, on_device)


def _on_device(arrays: list[NDArray[Any]], device: torch.device) -> list[torch.Tensor]:
    """int32 copies of the arrays, flat, in one transfer; each begins at a multiple of 32 bytes."""
    flat: list[Int32] = [one.reshape(-1).astype(np.int32) for one in arrays]
    # Never empty, so that every pointer is one that may be read.
    rooms = [max(1, -(-len(one) // _ALIGNED_INTEGERS)) * _ALIGNED_INTEGERS for one in flat]
    packed = np.zeros(sum(rooms), np.int32)
    begins = np.cumsum([0, *rooms]).tolist()
    for begin, one in zip(begins, flat, strict=False):
        packed[begin : begin + len(one)] = one
    moved = torch.from_numpy(packed).to(device)
    return [moved[begin : begin + len(one)] for begin, one in zip(begins, flat, strict=False)]
