"""The operators of a drafter's layers: those of a model, over entries of its own in the model's slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

import spectrie_kernels
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.drafters.description import Geometry
from spectrie.model.operators.base import OperatorSettings, Result
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.step.input import StepInput
from spectrie.model.step.packed import StepShape
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import AttentionArrays, AttentionLayout

__all__ = ["DraftOperators", "NamedScratch"]


class NamedScratch(Scratch):
    """A scratch whose results have names of their own, so that those of the model stay as they are."""

    def __init__(self, within: Scratch) -> None:
        self._within = within

    def empty(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return self._within.empty(f"draft {name}", shape, dtype)


class DraftOperators(GpuOperators):
    """Owns the drafter's keys and values: a slot for each of the model's, then those of draft rows."""

    def __init__(
        self,
        target: OperatorSettings,
        geometry: Geometry,
        *,
        hidden: int,
        draft_pages: int,
        first_key: int,
    ) -> None:
        """Allocates the entries.

        Args:
            target: Of the model.
            geometry: Of the drafter's layers.
            hidden: Width of their rows.
            draft_pages: Pages for draft rows, behind the model's.
            first_key: The first position with an entry.
        """
        config: ModelConfig = replace(
            target.config,
            hidden_size=hidden,
            num_layers=len(geometry.layers),
            num_heads=geometry.heads,
            num_kv_heads=geometry.kv_heads,
            head_dim=geometry.head_dim,
            norm_epsilon=geometry.norm_epsilon,
            rope=geometry.rope,
            layer_windows=tuple(layer.window for layer in geometry.layers),
            layer_rotary=tuple(layer.rotary for layer in geometry.layers),
            mixture=None,
        )

        def norm(weights: list[float]) -> torch.Tensor:
            return torch.tensor(weights, dtype=torch.float32, device=target.device)

        norms = tuple(
            None
            if layer.query_norm is None or layer.key_norm is None
            else (norm(layer.query_norm), norm(layer.key_norm))
            for layer in geometry.layers
        )
        super().__init__(
            replace(
                target,
                config=config,
                num_pages=target.num_pages + draft_pages,
                max_context=target.max_context + geometry.positions_ahead,
                model_kv_heads=geometry.kv_heads,
                head_norms=norms,
                first_key=first_key,
            )
        )

        self._looks_ahead = [layer.looks_ahead for layer in geometry.layers]
        self._ahead: AttentionLayout | AttentionArrays | None = None
        self.ahead_shape: StepShape | None = None
        """What levels are packed for besides `shape`, for layers whose rows see all rows of their block."""
        if any(self._looks_ahead):
            windows = [layer.window for layer in geometry.layers if not layer.looks_ahead]
            self.ahead_shape = replace(self.shape, windows=(None,))
            self.shape = replace(self.shape, windows=tuple(dict.fromkeys(windows)))

    def begin_level(
        self, step: StepInput, ahead: AttentionLayout | AttentionArrays | None, scratch: Scratch
    ) -> None:
        """Accepts the arrays of a level; see `begin_step`.

        Args:
            step: On the device.
            ahead: What attention takes in layers that look ahead; None where there are none.
            scratch: Where results go from now on.
        """
        self._ahead = ahead
        self.begin_step(step, scratch)

    def layout(self, layer: int) -> AttentionLayout | AttentionArrays:
        """See `GpuOperators`."""
        if not self._looks_ahead[layer]:
            return super().layout(layer)
        if self._ahead is None:
            raise ValueError(f"layer {layer} looks ahead, but no level of blocks has begun")
        return self._ahead

    def suits(self, target: GpuOperators) -> bool:
        """Returns whether what attention of the model's layers takes in a step suits these layers too."""
        own, other = self.shape, target.shape
        return (
            (own.group, own.kv_heads) == (other.group, other.kv_heads)
            and set(own.windows) <= set(other.windows)
            and self.tiles == target.tiles
        )

    def write_entries(self, layer: int, kv: Result) -> None:
        """Writes keys and values of the rows that have a slot.

        Args:
            layer: Index of the layer.
            kv: [rows, 2 kv_heads * head_dim], before rotation, or sums of that.
        """
        nothing = (kv.shape[0], 0, self._config.head_dim)
        self._rotate(layer, kv, self.scratch.empty("no query", nothing, self.dtype))

    def normed(self, name: str, stream: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Returns the norm of float32 rows [rows, any], called `name` in the scratch."""
        out = self.scratch.empty(name, stream.shape, self.dtype)
        epsilon = self._config.norm_epsilon
        return spectrie_kernels.add_norm(stream, None, weight, epsilon, out)

    def narrowed(self, name: str, stream: torch.Tensor) -> torch.Tensor:
        """Returns rows in the format of the products, called `name` in the scratch."""
        return self.scratch.empty(name, stream.shape, self.dtype).copy_(stream)
