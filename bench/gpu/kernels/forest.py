"""Steps of equal requests, for attention: trees over cached keys, or chunks of prompts."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch

from bench.gpu.check import Settings
from bench.gpu.device import device_of
from bench.gpu.kernels.operands import dtype_of
from bench.gpu.models.shapes import ModelShape
from spectrie_kernels import AttentionLayout, AttentionRows, AttentionTiles

__all__ = ["Forest", "Tensors", "tensors"]

_PAGE = 16


@dataclass(frozen=True, slots=True)
class Forest:
    """Equal requests.

    Attributes:
        requests: How many.
        kv_len: Keys that each has cached.
        rows: Rows of each: nodes of a tree, or of a chunk.
        chunk: Whether the rows are a chunk of a prompt.
    """

    requests: int
    kv_len: int
    rows: int
    chunk: bool = False

    @property
    def name(self) -> str:
        """Number of requests, cached keys and rows."""
        what = "prompt rows" if self.chunk else "nodes"
        return f"{self.requests} x {self.kv_len} keys, {self.rows} {what}"

    @property
    def parents(self) -> list[int]:
        """Of each row: two thirds are a chain, the others branch off anywhere."""
        source = random.Random(self.rows)
        spine = self.rows if self.chunk else max(1, self.rows * 2 // 3)
        return [*range(-1, spine - 1), *(source.randrange(i) for i in range(spine, self.rows))]

    def visible(self) -> torch.Tensor:
        """Which of the rows each row sees, [rows, rows]."""
        seen = torch.eye(self.rows, dtype=torch.bool)
        for row, parent in enumerate(self.parents):
            if parent >= 0:
                seen[row] |= seen[parent]
        return seen

    def kv_bytes(self, model: ModelShape, element_bytes: int) -> int:
        """Bytes of the keys and values that all requests see."""
        keys = self.requests * (self.kv_len + self.rows)
        return 2 * keys * model.kv_heads * model.head_dim * element_bytes

    def layout(
        self, model: ModelShape, settings: Settings, tiles: AttentionTiles | None = None
    ) -> AttentionLayout:
        """The step, pages in random order; `tiles` None takes untuned ones."""
        pages = -(-(self.kv_len + self.rows) // _PAGE)
        page_ids = np.random.default_rng(0).permutation(self.requests * pages)
        words = [0] * self.rows
        if not self.chunk:
            bits = self.visible().numpy()
            words = [sum(1 << int(i) for i in row.nonzero()[0]) for row in bits]
        starts = np.arange(self.requests, dtype=np.int32) * self.rows
        rows = AttentionRows(
            row_ancestors=np.tile(np.array(words, np.uint64).view(np.int64), self.requests),
            request_row_start=starts,
            request_row_count=np.full_like(starts, self.rows),
            request_kv_len=np.full_like(starts, self.kv_len),
            request_kind=np.full_like(starts, not self.chunk),
            page_indptr=np.arange(self.requests + 1, dtype=np.int32) * pages,
            page_ids=page_ids.astype(np.int32),
            page_size=_PAGE,
        )
        return AttentionLayout.of(
            rows,
            group=model.heads // model.kv_heads,
            kv_heads=model.kv_heads,
            tiles=tiles or AttentionTiles.of(model.head_dim, dtype_of(settings).itemsize),
            device=device_of(settings.dry).torch_device,
        )


@dataclass(frozen=True, slots=True)
class Tensors:
    """What attention reads.

    Attributes:
        query: [rows, heads, head_dim].
        keys: [slots, kv_heads, head_dim].
        values: Like `keys`.
        dense: Keys and values in order of their indices, [requests, kv_heads, kv_len + rows,
            head_dim], as others want them.
    """

    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    dense: tuple[torch.Tensor, torch.Tensor]


def tensors(
    forest: Forest, model: ModelShape, layout: AttentionLayout, settings: Settings
) -> Tensors:
    """Standard normal numbers on the device."""
    device, dtype = device_of(settings.dry).torch_device, dtype_of(settings)

    def drawn(rows: int, heads: int) -> torch.Tensor:
        return torch.randn(rows, heads, model.head_dim, device=device, dtype=dtype)

    pages = layout.rows.page_ids.reshape(forest.requests, -1)
    slots = torch.from_numpy(pages[:, :, None] * _PAGE + np.arange(_PAGE)).to(device)
    slots = slots.view(forest.requests, -1)[:, : forest.kv_len + forest.rows]
    keys, values = (drawn(pages.size * _PAGE, model.kv_heads) for _ in range(2))
    dense = tuple(one[slots].transpose(1, 2).contiguous() for one in (keys, values))
    return Tensors(
        drawn(forest.requests * forest.rows, model.heads), keys, values, (dense[0], dense[1])
    )
