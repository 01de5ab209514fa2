"""A drafter's weights on a device: tensors and products of what a reader of checkpoints described."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie.model.decoder.exchange import IntoStream
from spectrie.model.decoder.linear import (
    ExactLinear,
    ExactSegments,
    ExactSums,
    Linear,
    OpenProduct,
    Product,
    WideLinear,
)
from spectrie.model.decoder.packing import Product as Described
from spectrie.model.decoder.packing import Tensor, Vector
from spectrie.model.files.arrays import ITEM_SIZES
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import LinearWeight, SumOrder

__all__ = ["DraftTensors"]


@dataclass(frozen=True, slots=True)
class _Biased:
    """A product of float32 results with a bias."""

    product: Product
    bias: torch.Tensor

    def __call__(self, x: torch.Tensor, scratch: Scratch) -> torch.Tensor:
        return self.product(x, scratch).add_(self.bias)


class DraftTensors:
    """Copies what is described to a device.

    Args:
        dtype: Number format of products.
        device: Where the tensors go.
        exact: Whether each product adds in one order, whatever the rows.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, *, exact: bool) -> None:
        self.dtype, self.device, self.exact = dtype, device, exact
        self.bytes = 0
        """Of what was copied."""

    def norm(self, weights: Vector) -> torch.Tensor:
        """Returns a norm's weights, float32."""
        self.bytes += weights.nbytes
        return torch.from_numpy(weights.copy()).float().to(self.device)

    def numbers(self, tensor: Tensor) -> torch.Tensor:
        """Returns a tensor's elements, flat."""
        address, name, count = tensor
        memory = (ctypes.c_char * (count * ITEM_SIZES[name])).from_address(address)
        found = torch.frombuffer(memory, dtype=getattr(torch, name), count=count)
        copied = found.to(self.device, self.dtype, copy=True)
        self.bytes += copied.nbytes
        return copied

    def indices(self, values: NDArray[np.int32]) -> torch.Tensor:
        """Returns integers, int32."""
        self.bytes += values.nbytes
        return torch.from_numpy(values.copy()).to(self.device)

    def matrix(self, product: Described) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns the stacked matrix [out, in] of a product, and its bias."""
        parts = [self.numbers(part).view(-1, product.in_features) for part in product.parts]
        bias = product.bias
        on_device = None if bias is None else self.norm(bias).to(self.dtype)
        return (parts[0] if len(parts) == 1 else torch.cat(parts)), on_device

    def open(self, name: str, weight: torch.Tensor, bias: torch.Tensor | None) -> OpenProduct:
        """Returns a product whose reader finishes it."""
        if not self.exact:
            return Linear(name, weight, bias)
        order = SumOrder.of(*weight.shape)
        return ExactSegments(name, LinearWeight(weight, order, bias), self.dtype)

    def into_stream(self, name: str, product: Described) -> IntoStream:
        """Returns a product that is added to the residual stream."""
        weight, bias = self.matrix(product)
        if not self.exact:
            return Linear(name, weight, bias)
        order = SumOrder.of(*weight.shape, row_parallel=True)
        return ExactSums(name, LinearWeight(weight, order, bias))

    def head(self, name: str, weight: torch.Tensor) -> Product:
        """Returns a product of float32 results."""
        return self._wide(name, weight, None)

    def wide(self, name: str, product: Described) -> Product:
        """Returns a product of float32 results."""
        return self._wide(name, *self.matrix(product))

    def _wide(self, name: str, weight: torch.Tensor, bias: torch.Tensor | None) -> Product:
        if self.exact:
            order = SumOrder.of(*weight.shape)
            return ExactLinear(name, LinearWeight(weight, order, bias), torch.float32)
        plain = WideLinear(name, weight)
        return plain if bias is None else _Biased(plain, bias.float())
