"""Where the results of products and operators go."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

__all__ = ["HeldScratch", "Scratch"]


class Scratch:
    """Gives new memory for every result."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def empty(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Returns a contiguous tensor with any values.

        Args:
            name: What it is for. Of one name only the last tensor is in use.
            shape: Its shape.
            dtype: Its number format.
        """
        return torch.empty(*shape, dtype=dtype, device=self._device)


class HeldScratch(Scratch):
    """Gives the same memory for the same name, so that recorded work finds it where it was."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._held: dict[tuple[str, torch.dtype], torch.Tensor] = {}
        self._is_closed = False

    def close(self) -> None:
        """Refuses growth from now on: whatever was recorded writes to the memory given so far."""
        self._is_closed = True

    def empty(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """See `Scratch`; what was given before keeps its place and its values.

        Raises:
            RuntimeError: More is asked for than before, after `close`.
        """
        elements = math.prod(shape)
        held = self._held.get((name, dtype))
        if held is None or held.numel() < elements:
            if self._is_closed:
                raise RuntimeError(
                    f"{name} of {list(shape)} is larger than what recorded work uses"
                )
            # Zeros: rows that stand for none are computed too, and shall stay numbers.
            held = torch.zeros(elements, dtype=dtype, device=self._device)
            self._held[name, dtype] = held
        return held[:elements].view(*shape)

    @property
    def bytes(self) -> int:
        """Memory held."""
        return sum(one.numel() * one.element_size() for one in self._held.values())
