"""Calls of cuBLASLt, against a library that computes what it is told, column by column."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

from bench.gpu.kernels.cublaslt import CublasLt, LtError


class Library:
    """As much of cuBLASLt as is called: float32 products of the matrices that it is shown."""

    def __init__(self, refused: int | None = None) -> None:
        self.objects: dict[int, Any] = {}
        self.refused = refused

    def _made(self, reference: Any, value: Any) -> int:
        self.objects[len(self.objects) + 1] = value
        reference._obj.value = len(self.objects)
        return 0

    def cublasLtCreate(self, handle: Any) -> int:
        return self._made(handle, "handle")

    def cublasLtMatmulPreferenceCreate(self, preference: Any) -> int:
        return self._made(preference, {})

    def cublasLtMatmulPreferenceSetAttribute(
        self, preference: Any, name: int, value: Any, size: int
    ) -> int:
        assert size == 8
        self.objects[preference.value][name] = value._obj.value
        return 0

    def cublasLtMatmulDescCreate(self, operation: Any, compute: int, scale: int) -> int:
        assert (compute, scale) == (68, 0)
        return self._made(operation, {})

    def cublasLtMatmulDescSetAttribute(
        self, operation: Any, name: int, value: Any, size: int
    ) -> int:
        assert size == 4
        self.objects[operation.value][name] = value._obj.value
        return 0

    def cublasLtMatrixLayoutCreate(
        self, layout: Any, kind: int, height: Any, width: Any, leading: Any
    ) -> int:
        return self._made(layout, (kind, height.value, width.value, leading.value))

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        *_, preference, count, results, returned = arguments
        assert self.objects[preference.value][1] == 32 << 20
        for place in range(min(2, count)):
            results[place].algorithm.data[0] = 7 + place
            results[place].state = place  # the second one cannot be used
        returned._obj.value = min(2, count)
        return 0

    def cublasLtMatmulAlgoConfigGetAttribute(
        self, algorithm: Any, name: int, value: Any, size: Any, written: Any
    ) -> int:
        value._obj.value = algorithm._obj.data[0] if name == 0 else name
        return 0

    def cublasLtMatmulAlgoCheck(self, *arguments: Any) -> int:
        (left, right, target, _), algorithm = arguments[2:6], arguments[6]
        assert algorithm._obj.data[0] == 7
        self.shapes = [self.objects[one.value] for one in (left, right, target)]
        return int(self.objects[right.value][2] == self.refused)

    def cublasLtMatmul(self, *arguments: Any) -> int:
        (_, operation, one, a, left, b, right, zero, c, _, d, target, *_, stream) = arguments
        assert (one._obj.value, zero._obj.value, c.value, stream.value) == (1, 0, d.value, 99)
        assert self.objects[operation.value] == {3: 1}  # the left one is transposed

        def matrix(address: Any, layout: Any) -> Any:
            kind, height, width, leading = self.objects[layout.value]
            assert kind == 0 and leading == height
            floats = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
            return np.ctypeslib.as_array(floats, (width, height)).T

        matrix(d, target)[:] = matrix(a, left).T @ matrix(b, right)
        return 0


def test_a_product_is_that_of_the_rows_with_the_weight() -> None:
    calls = CublasLt(Library(), lambda: 99)
    x, weight, out = torch.randn(3, 5), torch.randn(4, 5), torch.zeros(3, 4)
    (algorithm,) = calls.algorithms(weight, 3, torch.float32, 8)
    assert algorithm.settings == {"id": 7, "tile": 1, "split": 2, "reduction": 3, "stages": 6}
    action = calls.action(algorithm, x, weight, out)
    assert action is not None
    action()
    torch.testing.assert_close(out, x @ weight.T)


def test_an_algorithm_that_cannot_do_some_rows_does_nothing_for_them() -> None:
    calls = CublasLt(Library(refused=3), lambda: 99)
    weight = torch.randn(4, 5)
    (algorithm,) = calls.algorithms(weight, 1, torch.float32, 8)
    assert calls.action(algorithm, torch.randn(3, 5), weight, torch.zeros(3, 4)) is None
    assert calls.action(algorithm, torch.randn(2, 5), weight, torch.zeros(2, 4)) is not None


def test_a_failed_call_is_named() -> None:
    library = Library()
    library.cublasLtMatrixLayoutCreate = lambda *_: 15  # type: ignore[method-assign]
    calls = CublasLt(library, lambda: 99)
    with pytest.raises(LtError, match="cublasLtMatrixLayoutCreate returned 15"):
        calls.algorithms(torch.randn(4, 5), 1, torch.float32, 8)
