"""A DFLASH 2 head as a torch module: DFLASH with convolutions over the block and a selector of candidates.

Before and behind each half of a layer a row takes itself and the rows before it in its block, by weights of its
columns plus what a product makes of the row for groups of columns. The selector adds to a place's likeliest tokens what
they are worth behind the token before them. Layout and arithmetic as in z-lab's dflash. It starts as a DFLASH head:
convolutions that take a row alone, and a selector that says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from spectrie.training.batches import Level
from spectrie.training.kinds.dflash import BlockLayer, Dflash
from spectrie.training.kinds.target_head import TargetHead, linear
from spectrie.training.target import Target

__all__ = ["Dflash2"]

_TAPS = 3
"""Rows that a convolution takes."""
_GROUP = 64
_RANK = 64
_CANDIDATES = 32
_HALVES = ("attention", "mlp")


class _Convolution(nn.Module):
    """The convolutions before and behind one half of a layer."""

    def __init__(self, hidden: int, group: int) -> None:
        super().__init__()
        base = torch.zeros(2, _TAPS, hidden)
        base[:, 0] = 1.0
        self.base_kernel = nn.Parameter(base)
        self.kernel_projection = linear(hidden, 2 * _TAPS * (hidden // group))
        nn.init.zeros_(self.kernel_projection.weight)

    def added(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the rows that go into the half add to their weights: [N, block, 2, taps, groups]."""
        made: torch.Tensor = self.kernel_projection(inputs)
        return made.view(*made.shape[:2], 2, _TAPS, -1)

    def through(self, side: int, rows: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        """Each row of a block from itself and those before it, [N, block, hidden], by the weights before the half
        (0) or behind it (1)."""
        block = rows.shape[1]
        by_group = (*rows.shape[:2], added.shape[-1], -1)
        padded = functional.pad(rows, (0, 0, _TAPS - 1, 0))
        found = torch.zeros_like(rows)
        for tap in range(_TAPS):
            taken = padded[:, _TAPS - 1 - tap : _TAPS - 1 - tap + block]
            grouped = taken.reshape(by_group) * added[:, :, side, tap, :, None]
            found = found + self.base_kernel[side, tap] * taken + grouped.flatten(-2)
        return found


class _ConvolvedLayer(BlockLayer):
    """A layer with convolutions around both halves."""

    def __init__(self, head: TargetHead, hidden: int, head_dim: int, group: int) -> None:
        super().__init__(head, hidden, head_dim)
        self._around = nn.ModuleDict({half: _Convolution(hidden, group) for half in _HALVES})

    def _convolution(self, half: str) -> _Convolution:
        found: _Convolution = self._around.get_submodule(half)  # type: ignore[assignment]
        return found

    def entered(
        self, half: str, inputs: torch.Tensor
    ) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
        convolution = self._convolution(half)
        added = convolution.added(inputs)
        entered = convolution.through(0, inputs, added)
        return entered, lambda rows: convolution.through(1, rows, added)

    def tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        found = super().tensors(prefix)
        for half in _HALVES:
            own, name = self._convolution(half), f"{prefix}{half}_conv"
            found[f"{name}.base_kernel"] = own.base_kernel
            found[f"{name}.kernel_projection.weight"] = own.kernel_projection.weight
        return found


class Dflash2(Dflash):
    """The head. It answers as many levels as its block has masks."""

    def __init__(
        self,
        target: Target,
        taps: Sequence[int],
        vocabulary: torch.Tensor,
        levels: int,
        *,
        warm: bool = True,
    ) -> None:
        """Builds a head; arguments as of `Dflash`."""
        super().__init__(target, taps, vocabulary, levels, warm=warm)
        hidden, size = self._config.hidden_size, self._config.vocabulary_size
        self.candidates = min(_CANDIDATES, size)
        self.hidden_projection = linear(hidden, _RANK)
        nn.init.normal_(self.hidden_projection.weight, std=hidden**-0.5)
        self.predecessor = nn.Parameter(torch.randn(size, _RANK))
        self.successor = nn.Parameter(torch.zeros(size, _RANK))

    def new_layer(self, hidden: int) -> BlockLayer:
        return _ConvolvedLayer(self, hidden, self._config.head_dim, _group(hidden))

    def worth(self, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """What the selector adds to each token's logit behind the token `before`, [N, vocabulary]."""
        found = self.predecessor[before] * self.projected(states)
        return functional.linear(found, self.successor).float()

    def projected(self, states: torch.Tensor) -> torch.Tensor:
        """What the selector takes of states, [N, rank]."""
        made: torch.Tensor = self.hidden_projection(states)
        return made

    def loss_behind(self, level: Level, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        # Both have to be right: the logits find the candidates among which the selector chooses.
        logits = self.guess(states)
        chosen = logits + self.worth(states, before)
        return (self.loss(level, logits) + self.loss(level, chosen)) / 2

    def likeliest(self, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        logits = self.guess(states)
        ids = logits.topk(self.candidates).indices
        scores = (logits + self.worth(states, before)).gather(1, ids)
        return ids.gather(1, scores.argmax(1, keepdim=True)).flatten()

    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        values, tensors = super().published()
        tensors |= {
            "candidate_selector.predecessor_codebook": self.predecessor,
            "candidate_selector.successor_codebook": self.successor,
            "candidate_selector.hidden_projection.weight": self.hidden_projection.weight,
        }
        values["architectures"] = ["DFlash2DraftModel"]
        values["dflash_config"] |= {
            "conv_kernel_size": _TAPS,
            "conv_group_size": _group(self._config.hidden_size),
            "selector_rank": _RANK,
            "selector_top_k": self.candidates,
        }
        return values, tensors


def _group(hidden: int) -> int:
    """Columns of a row that share what it adds to their weights."""
    return math.gcd(hidden, _GROUP)
