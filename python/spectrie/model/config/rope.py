"""Rotary position embedding: the frequencies of each scaling rule, and the tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectrie.errors import ModelError
from spectrie.model.config.reader import LARGEST_COUNT, Reader, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]

__all__ = ["RopeConfig"]

_FIELDS = {
    "default": (),
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
    "yarn": (
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    ),
}
"""Fields that each supported rule reads; fields of another rule are ignored."""

_PIECE = 4096
"""Positions whose angles are computed together."""

_ALL_FIELDS = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "finetuned"}.union(
    *_FIELDS.values()
)


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Parameters that turn positions into angles.

    Attributes:
        theta: Base of the geometric series of frequencies.
        rotated: Rotated dimensions of a head; dimension i is paired with i + rotated / 2.
        kind: `default`, `linear` (positions divided by `factor`), `llama3` (low frequencies divided
            by `factor`, high ones kept, a ramp between over wavelengths) or `yarn` (the same with a
            ramp over dimensions, and longer vectors).
        factor: See `kind`.
        low_frequency_factor: For `llama3`: start of the ramp.
        high_frequency_factor: For `llama3`: end of the ramp.
        original_context: For `llama3` and `yarn`: context length of the original training.
        fast_turns: For `yarn`: dimensions with more turns in that context keep their frequency.
        slow_turns: For `yarn`: dimensions with fewer turns use the divided frequency.
        whole_dimensions: For `yarn`: whether the ramp starts and ends at whole dimensions.
        magnitude: For `yarn`: factor of cosines and sines.
    """

    theta: float
    rotated: int
    kind: str = "default"
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_context: int = 8192
    fast_turns: float = 32.0
    slow_turns: float = 1.0
    whole_dimensions: bool = True
    magnitude: float = 1.0

    @classmethod
    def from_values(
        cls,
        values: Mapping[str, Any],
        head_dim: int,
        *,
        theta: float = 10000.0,
        where: str = "config.json",
    ) -> RopeConfig:
        """Reads both spellings of `config.json`: `rope_parameters`, or `rope_theta` + `rope_scaling`.

        Args:
            values: `config.json`.
            head_dim: Dimensions of a head.
            theta: Default base, if the file has none.
            where: The file to name in errors.

        Raises:
            ModelError: A scaling rule or one of its fields is not supported.
        """
        whole = Reader(values, where)
        rules = {**whole.fields("rope_scaling"), **whole.fields("rope_parameters")}
        rules = {name: value for name, value in rules.items() if value is not None}
        kind = rules.get("rope_type", rules.get("type", "default"))
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise ModelError(
                f"{where}: rope type {shown(kind)} is not supported; supported: {', '.join(_FIELDS)}"
            )
        unknown = sorted(rules.keys() - _ALL_FIELDS)
        if unknown:
            raise ModelError(f"{where}: rope fields that are not supported: {', '.join(unknown)}")
        reader = Reader(rules, where, "rope")
        factor = reader.number("factor", 1.0 if kind == "default" else None)
        context = whole.count("max_position_embeddings", 8192)
        config = cls(
            theta=reader.number("rope_theta", whole.number("rope_theta", theta)),
            rotated=_rotated(reader if "partial_rotary_factor" in rules else whole, head_dim),
            kind=kind,
            factor=factor,
            low_frequency_factor=reader.number("low_freq_factor", 1.0),
            high_frequency_factor=reader.number("high_freq_factor", 4.0),
            original_context=reader.count(
                "original_max_position_embeddings", context, may_have_point=True
            ),
            fast_turns=reader.number("beta_fast", 32.0),
            slow_turns=reader.number("beta_slow", 1.0),
            whole_dimensions=reader.switch("truncate", True),
            magnitude=_magnitude(reader, rules, factor) if kind == "yarn" else 1.0,
        )
        if config.theta <= 1:
            named = reader if "rope_theta" in rules else whole
            raise named.refuse("rope_theta", "more than 1")
        # The rule divides by their difference.
        if kind == "llama3" and config.high_frequency_factor <= config.low_frequency_factor:
            raise reader.refuse(
                "high_freq_factor", f"more than low_freq_factor, {config.low_frequency_factor:g}"
            )
        if config.stretched_context > LARGEST_COUNT:
            raise reader.refuse("factor", f"a context of at most {LARGEST_COUNT}")
        return config

    @property
    def stretched_context(self) -> int:
        """Positions usable with `yarn`; 0 for the other rules, whose files state the context."""
        return int(self.original_context * self.factor) if self.kind == "yarn" else 0

    def frequencies(self) -> Float32:
        """Returns the angle per position: float32 [rotated / 2]."""
        import numpy as np

        exponents = np.arange(0, self.rotated, 2, dtype=np.float32) / np.float32(self.rotated)
        # Each step in float32, as models are trained; a power is rounded once, and so alike on all processors.
        powers = (self.theta ** exponents.astype(np.float64)).astype(np.float32)
        frequencies: Float32 = np.float32(1) / powers
        if self.kind == "linear":
            divided: Float32 = frequencies / self.factor
            return divided
        if self.kind == "llama3":
            return self._llama3(frequencies)
        if self.kind == "yarn":
            return self._yarn(frequencies)
        return frequencies

    def _llama3(self, frequencies: Float32) -> Float32:
        import numpy as np

        wavelengths = 2 * math.pi / frequencies
        longest = self.original_context / self.low_frequency_factor
        shortest = self.original_context / self.high_frequency_factor
        ramp = (self.original_context / wavelengths - self.low_frequency_factor) / (
            self.high_frequency_factor - self.low_frequency_factor
        )
        smooth = (1 - ramp) * frequencies / self.factor + ramp * frequencies
        scaled = np.where(wavelengths > longest, frequencies / self.factor, frequencies)
        between = (wavelengths <= longest) & (wavelengths >= shortest)
        return np.where(between, smooth, scaled)

    def _yarn(self, frequencies: Float32) -> Float32:
        import numpy as np

        def dimension(turns: float) -> float:
            """Of a vector that turns so often within the original context."""
            wavelengths = self.original_context / (turns * 2 * math.pi)
            return self.rotated * math.log(wavelengths) / (2 * math.log(self.theta))

        first, last = dimension(self.fast_turns), dimension(self.slow_turns)
        if self.whole_dimensions:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, self.rotated - 1)
        if first == last:
            last += 0.001
        dimensions = np.arange(self.rotated // 2, dtype=np.float32)
        divided = ((dimensions - first) / (last - first)).clip(0, 1)
        mixed: Float32 = frequencies / self.factor * divided + frequencies * (1 - divided)
        return mixed

    def tables(self, num_positions: int) -> tuple[Float32, Float32]:
        """Returns cosines and sines: float32 [num_positions, rotated / 2]."""
        import numpy as np

        positions = np.arange(num_positions, dtype=np.float32)
        angles = positions[:, None] * self.frequencies()[None, :]
        magnitude = np.float32(self.magnitude)
        tables = [np.empty_like(angles), np.empty_like(angles)]
        # In float64, rounded once: float32's own cosines differ between processors. In pieces, as that is twice as large.
        for first in range(0, num_positions, _PIECE):
            piece = slice(first, first + _PIECE)
            wide = angles[piece].astype(np.float64)
            for table, function in zip(tables, (np.cos, np.sin), strict=True):
                table[piece] = function(wide).astype(np.float32) * magnitude
        return tables[0], tables[1]


def _rotated(reader: Reader, head_dim: int) -> int:
    # What is above 1 is refused, and only then can it be too much for an integer.
    partial = min(reader.number("partial_rotary_factor", 1.0), 2.0)
    rotated = int(head_dim * partial) // 2 * 2
    if partial > 1 or not rotated:
        raise reader.refuse(
            "partial_rotary_factor", f"at most 1, and two of a head's {head_dim} dimensions"
        )
    return rotated


def _magnitude(reader: Reader, rules: Mapping[str, Any], factor: float) -> float:
    def of(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    if "attention_factor" in rules:
        return reader.number("attention_factor")
    # Zero means that the rule has no such factor.
    if all(rules.get(name) for name in ("mscale", "mscale_all_dim")):
        return of(reader.number("mscale")) / of(reader.number("mscale_all_dim"))
    return of(1.0)
