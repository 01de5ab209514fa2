"""Weights and inputs of products, drawn on the device."""

from __future__ import annotations

import torch

from bench.gpu.check import Settings
from bench.gpu.device import device_of
from bench.gpu.models.shapes import MODELS, TINY, ModelShape, ProductShape
from spectrie_kernels import LinearWeight

__all__ = ["dtype_of", "models_of", "operands", "same_bytes"]


def models_of(settings: Settings) -> tuple[ModelShape, ...]:
    """The models that are measured, the largest first, as their facts are the dearest."""
    return (TINY,) if settings.dry else MODELS[::-1]


def dtype_of(settings: Settings) -> torch.dtype:
    """bfloat16, or what Triton's interpreter multiplies rightly."""
    return torch.float32 if settings.dry else torch.bfloat16


def operands(
    product: ProductShape, rows: int, settings: Settings
) -> tuple[torch.Tensor, LinearWeight]:
    """An input of `rows` rows and a weight, whose sums depend on the order of addition.

    Without a device sums are of small whole numbers, which every order gives alike: the interpreter's
    product is NumPy's, whose order is no device's.
    """
    device = device_of(settings.dry).torch_device
    generator = torch.Generator(device).manual_seed(rows)

    def drawn(*shape: int) -> torch.Tensor:
        size = 3 if settings.dry else 6
        whole = torch.randint(-size, size + 1, shape, generator=generator, device=device)
        if settings.dry:
            return whole.to(dtype_of(settings))
        values = torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16)
        # Of many sizes, so that the smaller ones are rounded differently in each order.
        return values * torch.exp2(whole.bfloat16())

    values = drawn(product.out_features, product.in_features)
    bias = drawn(1, product.out_features)[0].contiguous() if product.bias else None
    return drawn(rows, product.in_features), LinearWeight(values, product.order, bias)


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two float32 tensors hold the same bytes."""
    return torch.equal(one.view(torch.int32), other.view(torch.int32))
