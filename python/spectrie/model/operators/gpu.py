"""Operators on a GPU: attention by the Triton kernels, the rest in torch.

Tested on CPU tensors, for which the kernels use their torch form; it has not run on a GPU yet.
"""

from __future__ import annotations

import torch

import spectrie_kernels
from spectrie.model.operators.base import TOP_K, OperatorSettings
from spectrie.model.operators.reference import ReferenceOperators
from spectrie.model.plan import PlanArrays
from spectrie_kernels import AttentionLayout, AttentionRows, AttentionTiles

__all__ = ["GpuOperators"]


class GpuOperators(ReferenceOperators):
    """The reference, with attention over pages by kernels."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Allocates the cache."""
        super().__init__(settings)
        self._layout: AttentionLayout | None = None

    def begin(self, plan: PlanArrays) -> None:
        self._begin_rows(plan)
        config, settings = self._config, self._settings
        rows = AttentionRows(
            row_ancestors=plan.row_ancestors,
            request_row_start=plan.request_row_start,
            request_row_count=plan.request_row_count,
            request_kv_len=plan.request_kv_len,
            request_kind=plan.request_kind,
            page_indptr=plan.page_indptr,
            page_ids=plan.page_ids,
            page_size=settings.page_size,
        )
        self._layout = AttentionLayout.of(
            rows,
            group=config.num_heads // config.num_kv_heads,
            kv_heads=settings.model_kv_heads,
            tiles=AttentionTiles.of(config.head_dim, settings.dtype.itemsize),
            windows=config.layer_windows,
            device=settings.device,
        )

    def attend(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        if self._layout is None:
            raise ValueError("attend was called before begin")
        query = self._write(layer, qkv).to(self._settings.dtype)
        attended = spectrie_kernels.tree_attention(
            query.contiguous(),
            self._keys[layer],
            self._values[layer],
            self._layout,
            self._config.head_dim**-0.5,
            window=self._config.layer_windows[layer],
        )
        return attended.flatten(1)

    def _likeliest(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Finds the likeliest tokens without sorting; the order of equal values is undefined."""
        values, ids = logits.topk(min(TOP_K, logits.shape[-1]), dim=-1)
        return values, ids
