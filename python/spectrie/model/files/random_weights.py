"""Weights that are drawn instead of read, for measurements of a model's size where its weights are not.

A folder with a file `random_weights.json`, which holds an object, has such weights. No model that
anybody publishes has this file, and no option asks for it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable

import torch

from spectrie.model.files.arrays import Array
from spectrie.model.files.weights import Weights

__all__ = ["RandomWeights"]


class RandomWeights(Weights):
    """Every tensor that is asked for, drawn where it is used: the same for one name and shape on one kind
    of device.

    Args:
        device: Where they are drawn.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def __contains__(self, name: str) -> bool:
        return True

    def names(self) -> list[str]:
        """Returns none: what is there is what is asked for."""
        return []

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        """Returns what `tensor` does, on the host."""
        drawn = self.tensor(name, shape).cpu()
        array: Array = (drawn.view(torch.uint16) if drawn.itemsize == 2 else drawn).numpy()
        return array

    def tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns ones for a norm, zeros for a bias, and bfloat16 for a matrix, so that a product of
        ordinary numbers has ordinary numbers."""
        if name.endswith("bias"):
            return torch.zeros(shape, device=self._device)
        if len(shape) == 1:
            return torch.ones(shape, device=self._device)
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(name.encode()))
        drawn = torch.randn(shape, generator=generator, device=self._device, dtype=torch.bfloat16)
        return drawn.mul_(1 / math.sqrt(shape[-1]))

    def check_all_taken(self, expected: Iterable[str] = ()) -> None:
        """Nothing is left over."""
