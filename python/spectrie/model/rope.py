"""Rotary position embedding: the frequencies of each scaling rule, and the tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectrie.errors import ModelError

if TYPE_CHECKING:
    import torch

__all__ = ["RopeConfig"]

_SUPPORTED = ("default", "linear", "llama3")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """How positions turn into angles.

    Attributes:
        theta: Base of the geometric series of frequencies.
        rotated: Rotated dimensions of a head; dimension i is paired with i + rotated / 2.
        kind: `default`, `linear` (positions divided by `factor`) or `llama3` (low frequencies divided
            by `factor`, high ones kept, a ramp between).
        factor: See `kind`.
        low_frequency_factor: Of `llama3`: where the ramp starts.
        high_frequency_factor: Of `llama3`: where the ramp ends.
        original_context: Of `llama3`: the context that the model was first trained with.
    """

    theta: float
    rotated: int
    kind: str = "default"
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_context: int = 8192

    @classmethod
    def from_values(
        cls, values: Mapping[str, Any], head_dim: int, *, where: str = "config.json"
    ) -> RopeConfig:
        """Reads both spellings of `config.json`: `rope_parameters`, or `rope_theta` + `rope_scaling`.

        Raises:
            ModelError: a scaling rule that is not supported.
        """
        rules = dict(values.get("rope_scaling") or {})
        rules.update(values.get("rope_parameters") or {})
        kind = str(rules.get("rope_type", rules.get("type", "default")))
        if kind not in _SUPPORTED:
            raise ModelError(
                f"{where}: rope type {kind!r} is not supported; supported: {', '.join(_SUPPORTED)}"
            )
        partial = float(rules.get("partial_rotary_factor", values.get("partial_rotary_factor", 1)))
        theta = rules.get("rope_theta", values.get("rope_theta", 10000.0))
        context = rules.get(
            "original_max_position_embeddings", values.get("max_position_embeddings", 8192)
        )
        return cls(
            theta=float(theta),
            rotated=int(head_dim * partial) // 2 * 2,
            kind=kind,
            factor=float(rules.get("factor", 1.0)),
            low_frequency_factor=float(rules.get("low_freq_factor", 1.0)),
            high_frequency_factor=float(rules.get("high_freq_factor", 4.0)),
            original_context=int(context),
        )

    def frequencies(self) -> torch.Tensor:
        """Angle per position: float32 [rotated / 2]."""
        import torch

        exponents = torch.arange(0, self.rotated, 2, dtype=torch.int64).float() / self.rotated
        frequencies = 1.0 / (self.theta**exponents)
        if self.kind == "linear":
            return frequencies / self.factor
        if self.kind == "llama3":
            return self._llama3(frequencies)
        return frequencies

    def _llama3(self, frequencies: torch.Tensor) -> torch.Tensor:
        import torch

        wavelengths = 2 * math.pi / frequencies
        longest = self.original_context / self.low_frequency_factor
        shortest = self.original_context / self.high_frequency_factor
        ramp = (self.original_context / wavelengths - self.low_frequency_factor) / (
            self.high_frequency_factor - self.low_frequency_factor
        )
        smooth = (1 - ramp) * frequencies / self.factor + ramp * frequencies
        scaled = torch.where(wavelengths > longest, frequencies / self.factor, frequencies)
        between = (wavelengths <= longest) & (wavelengths >= shortest)
        return torch.where(between, smooth, scaled)

    def tables(self, num_positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines: float32 [num_positions, rotated / 2], CPU."""
        import torch

        angles = torch.arange(num_positions).float()[:, None] * self.frequencies()[None, :]
        return angles.cos().contiguous(), angles.sin().contiguous()
