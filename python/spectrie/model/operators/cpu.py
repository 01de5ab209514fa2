"""Operators of the compiled core: each row alone in a fixed order."""

from __future__ import annotations

import torch

from spectrie import _core
from spectrie.model.operators.base import TOP_K, Operators, OperatorSettings
from spectrie.model.plan import PlanArrays

__all__ = ["CpuOperators"]


class _Workspace:
    """One buffer, seen as a matrix of as many rows as asked; views and addresses are kept."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        self._width = width
        self._buffer = torch.zeros(0, width, dtype=dtype)
        self._views: dict[int, tuple[torch.Tensor, int]] = {}

    def rows(self, rows: int) -> tuple[torch.Tensor, int]:
        found = self._views.get(rows)
        if found is None:
            if rows > self._buffer.shape[0]:
                self._buffer = torch.zeros(rows, self._width, dtype=self._buffer.dtype)
                self._views.clear()
            view = self._buffer[:rows]
            found = self._views[rows] = (view, view.data_ptr())
        return found


class CpuOperators(Operators):
    """Operators on CPU tensors, float32 or bfloat16."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Reserves the cache and the workspaces.

        Raises:
            ValueError: Sizes that the core does not support, or no memory for the cache.
        """
        config = settings.config
        cosines, sines = config.rope.tables(settings.max_context)
        layers = [
            (
                rotary,
                window,
                None if norms is None else norms[0].tolist(),
                None if norms is None else norms[1].tolist(),
            )
            for rotary, window, norms in zip(
                config.layer_rotary, config.layer_windows, settings.head_norms, strict=True
            )
        ]
        self._bfloat16 = settings.dtype == torch.bfloat16
        self._attention = _core.CpuAttention(
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            num_pages=settings.num_pages,
            max_context=settings.max_context,
            scale=config.head_dim**-0.5,
            norm_epsilon=config.norm_epsilon,
            cosines=cosines.numpy(),
            sines=sines.numpy(),
            layers=layers,
            bfloat16=self._bfloat16,
        )
        self._settings = settings
        self._dtype = settings.dtype
        self._threads = settings.threads
        self._epsilon = config.norm_epsilon
        self._qkv_size = config.qkv_size
        self._intermediate = config.intermediate_size
        self._normed = _Workspace(config.hidden_size, settings.dtype)
        self._attended = _Workspace(config.num_heads * config.head_dim, settings.dtype)
        self._gated = _Workspace(config.intermediate_size, settings.dtype)
        self._batch: _core.CpuBatch | None = None

    def begin(self, plan: PlanArrays) -> None:
        self._batch = _core.CpuBatch(plan, self._settings.num_pages, self._settings.max_context)
        self._attention.move_slots(self._batch)

    def set_threads(self, threads: int) -> None:
        self._threads = threads

    def _address(self, tensor: torch.Tensor, width: int, dtype: torch.dtype) -> int:
        if tensor.dtype != dtype or tensor.shape[1] != width or not tensor.is_contiguous():
            raise ValueError(
                f"tensor is {tensor.dtype} {tuple(tensor.shape)} with strides {tensor.stride()}, "
                f"expected contiguous {dtype} rows of {width}"
            )
        return tensor.data_ptr()

    def add_norm(
        self, residual: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor
    ) -> torch.Tensor:
        rows, width = residual.shape
        out, out_address = self._normed.rows(rows)
        if weight.dtype != torch.float32 or weight.shape[0] != width:
            raise ValueError(f"norm weight is {weight.dtype} {tuple(weight.shape)}")
        if delta is not None and delta.shape[0] != rows:
            raise ValueError(f"delta has {delta.shape[0]} rows, expected {rows}")
        _core.cpu_add_rms_norm(
            self._address(residual, width, torch.float32),
            0 if delta is None else self._address(delta, width, self._dtype),
            weight.data_ptr(),
            out_address,
            rows,
            width,
            self._epsilon,
            self._bfloat16,
            self._threads,
        )
        return out

    def attend(self, layer: int, qkv: torch.Tensor, first_row: int, num_rows: int) -> torch.Tensor:
        if self._batch is None:
            raise ValueError("attend before begin")
        rows = qkv.shape[0]
        if num_rows > rows:
            raise ValueError(f"num_rows is {num_rows}, expected at most the {rows} rows of qkv")
        out, out_address = self._attended.rows(rows)
        self._attention.attend(
            layer,
            self._batch,
            first_row,
            num_rows,
            self._address(qkv, self._qkv_size, self._dtype),
            out_address,
            self._threads,
        )
        return out

    def gate(self, gate_up: torch.Tensor) -> torch.Tensor:
        rows = gate_up.shape[0]
        out, out_address = self._gated.rows(rows)
        _core.cpu_silu_mul(
            self._address(gate_up, 2 * self._intermediate, self._dtype),
            out_address,
            rows,
            self._intermediate,
            self._bfloat16,
            self._threads,
        )
        return out

    def top_k(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, width = logits.shape
        ids = torch.empty(rows, TOP_K, dtype=torch.int32)
        probabilities = torch.empty(rows, TOP_K)
        _core.cpu_top_k(
            self._address(logits, width, torch.float32),
            ids.data_ptr(),
            probabilities.data_ptr(),
            rows,
            width,
            self._threads,
        )
        return ids, probabilities
