"""Operators on a GPU: attention by the Triton kernels, the rest in torch.

Tested on CPU tensors, for which the kernels use their torch form; it has not run on a GPU yet.
"""

from __future__ import annotations

import torch

import spectrie_kernels
from spectrie.model.operators.base import TOP_K, OperatorSettings
from spectrie.model.operators.reference import ReferenceOperators
from spectrie.model.plan import PlanArrays
from spectrie_kernels import TreeLayout

__all__ = ["GpuOperators"]


class GpuOperators(ReferenceOperators):
    """The reference, with attention over pages in one kernel."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Allocates the cache."""
        super().__init__(settings)
        self._layout: TreeLayout | None = None
        self._longest = 0

    def begin(self, plan: PlanArrays) -> None:
        super().begin(plan)
        device = self._settings.device

        def on_device(values: object) -> torch.Tensor:
            return torch.as_tensor(values).to(device)

        lengths = plan.request_kv_len + plan.request_row_count
        self._longest = int(lengths.max()) if len(lengths) else 0
        self._layout = TreeLayout(
            row_owner=torch.repeat_interleave(
                torch.arange(len(lengths), dtype=torch.int32),
                torch.as_tensor(plan.request_row_count).long(),
            ).to(device),
            row_ancestors=on_device(plan.row_ancestors),
            request_row_start=on_device(plan.request_row_start),
            request_row_count=on_device(plan.request_row_count),
            request_kv_len=on_device(plan.request_kv_len),
            request_kind=on_device(plan.request_kind),
            page_indptr=on_device(plan.page_indptr),
            page_ids=on_device(plan.page_ids),
            page_size=self._settings.page_size,
            max_length=self._longest,
        )

    def attend(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        window = self._config.layer_windows[layer]
        if self._layout is None or (window is not None and self._longest > window):
            # The kernel sees every key.
            return super().attend(layer, qkv)
        query = self._write(layer, qkv).to(self._settings.dtype)
        attended = spectrie_kernels.tree_attention(
            query,
            self._keys[layer],
            self._values[layer],
            self._layout,
            self._config.head_dim**-0.5,
        )
        return attended.flatten(1)

    def _likeliest(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Finds the likeliest tokens without sorting; the order of equal values is undefined."""
        values, ids = logits.topk(min(TOP_K, logits.shape[-1]), dim=-1)
        return values, ids
