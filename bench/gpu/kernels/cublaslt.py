"""Products by one algorithm of cuBLASLt that is chosen once, called through ctypes.

Source: NVIDIA, cuBLAS library documentation, part cuBLASLt; its numbers are those of cublasLt.h.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

__all__ = ["Algorithm", "AlgorithmData", "CublasLt", "LtError", "library"]

_COMPUTE_32F, _REAL_32F = 68, 0
_TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
_TRANSPOSE_LEFT, _TRANSPOSED = 3, 1
_MOST_WORKSPACE = 1
_CONFIGURATION = {"id": 0, "tile": 1, "split": 2, "reduction": 3, "stages": 6}
_WORKSPACE_BYTES = 32 << 20


class LtError(RuntimeError):
    """A call of the library failed."""


class AlgorithmData(ctypes.Structure):
    """What the library calls an algorithm: 64 bytes of its own."""

    _fields_ = (("data", ctypes.c_uint64 * 8),)


class _Found(ctypes.Structure):
    _fields_ = (
        ("algorithm", AlgorithmData),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One of the library's algorithms, with all of its settings.

    Attributes:
        data: What the library takes.
        settings: Its number, tile, parts of the terms, and so on, as the library numbers them.
    """

    data: AlgorithmData
    settings: dict[str, int]


def library() -> ctypes.CDLL:
    """The library that torch has loaded.

    Raises:
        LtError: It has loaded none.
    """
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    found = re.search(r"(/\S*libcublasLt\.so[.\d]*)", maps)
    if found is None:
        raise LtError("torch has loaded no cuBLASLt")
    return ctypes.CDLL(found[1])


class CublasLt:
    """Calls of the library on one device.

    Args:
        calls: The library.
        stream: Returns the stream that is launched on.
    """

    def __init__(
        self,
        calls: Any,
        stream: Callable[[], int] = lambda: torch.cuda.current_stream().cuda_stream,
    ) -> None:
        self._calls = calls
        self._stream = stream
        self._handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self._handle))
        self._workspace: torch.Tensor | None = None

    def algorithms(
        self, weight: torch.Tensor, rows: int, out: torch.dtype, count: int
    ) -> list[Algorithm]:
        """Algorithms for `weight` [features, terms] and `rows` rows, those first that it likes best.

        Raises:
            LtError: The library has none.
        """
        preference = ctypes.c_void_p()
        self._call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        most = ctypes.c_size_t(_WORKSPACE_BYTES)
        self._call(
            "cublasLtMatmulPreferenceSetAttribute",
            preference,
            _MOST_WORKSPACE,
            ctypes.byref(most),
            ctypes.sizeof(most),
        )
        results = (_Found * count)()
        returned = ctypes.c_int()
        operation, layouts = self._described(weight, rows, out)
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._handle,
            operation,
            *layouts,
            preference,
            count,
            results,
            ctypes.byref(returned),
        )
        found = [one for one in results[: returned.value] if one.state == 0]
        return [Algorithm(_copy(one.algorithm), self._settings(one.algorithm)) for one in found]

    def action(
        self, algorithm: Algorithm, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor
    ) -> Callable[[], None] | None:
        """What launches out = x @ weight^T by this algorithm; None where it cannot.

        Args:
            algorithm: Of `algorithms`, for these types.
            x: [rows, terms], contiguous.
            weight: [features, terms], contiguous.
            out: [rows, features], contiguous.
        """
        operation, layouts = self._described(weight, x.shape[0], out.dtype)
        checked = _Found()
        status = self._calls.cublasLtMatmulAlgoCheck(
            self._handle,
            operation,
            *layouts,
            ctypes.byref(algorithm.data),
            ctypes.byref(checked),
        )
        if status != 0 or checked.workspace_bytes > _WORKSPACE_BYTES:
            return None
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        room = self._room(x.device)
        left, right, target, _ = layouts
        arguments = (
            self._handle,
            operation,
            ctypes.byref(one),
            ctypes.c_void_p(weight.data_ptr()),
            left,
            ctypes.c_void_p(x.data_ptr()),
            right,
            ctypes.byref(zero),
            ctypes.c_void_p(out.data_ptr()),
            target,
            ctypes.c_void_p(out.data_ptr()),
            target,
            ctypes.byref(algorithm.data),
            ctypes.c_void_p(room.data_ptr()),
            ctypes.c_size_t(_WORKSPACE_BYTES),
        )
        return lambda: self._call("cublasLtMatmul", *arguments, ctypes.c_void_p(self._stream()))

    def _described(
        self, weight: torch.Tensor, rows: int, out: torch.dtype
    ) -> tuple[ctypes.c_void_p, list[ctypes.c_void_p]]:
        """The product and its four matrices, column by column: (weight^T)^T, x^T, out^T twice."""
        features, terms = weight.shape
        operation = ctypes.c_void_p()
        self._call("cublasLtMatmulDescCreate", ctypes.byref(operation), _COMPUTE_32F, _REAL_32F)
        transposed = ctypes.c_int(_TRANSPOSED)
        self._call(
            "cublasLtMatmulDescSetAttribute",
            operation,
            _TRANSPOSE_LEFT,
            ctypes.byref(transposed),
            ctypes.sizeof(transposed),
        )
        left = self._layout(weight.dtype, terms, features)
        right = self._layout(weight.dtype, terms, rows)
        target = self._layout(out, features, rows)
        return operation, [left, right, target, target]

    def _layout(self, dtype: torch.dtype, height: int, width: int) -> ctypes.c_void_p:
        layout = ctypes.c_void_p()
        self._call(
            "cublasLtMatrixLayoutCreate",
            ctypes.byref(layout),
            _TYPES[dtype],
            ctypes.c_uint64(height),
            ctypes.c_uint64(width),
            ctypes.c_int64(height),
        )
        return layout

    def _settings(self, algorithm: AlgorithmData) -> dict[str, int]:
        settings = {}
        for name, number in _CONFIGURATION.items():
            value, written = ctypes.c_int32(-1), ctypes.c_size_t()
            self._calls.cublasLtMatmulAlgoConfigGetAttribute(
                ctypes.byref(algorithm),
                number,
                ctypes.byref(value),
                ctypes.c_size_t(ctypes.sizeof(value)),
                ctypes.byref(written),
            )
            settings[name] = value.value
        return settings

    def _room(self, device: torch.device) -> torch.Tensor:
        if self._workspace is None:
            self._workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        return self._workspace

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._calls, name)(*arguments)
        if status != 0:
            raise LtError(f"{name} returned {status}")


def _copy(algorithm: AlgorithmData) -> AlgorithmData:
    return AlgorithmData.from_buffer_copy(algorithm)
