"""What the trainer asks of a head, whatever its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from spectrie.training.batches import Batch
from spectrie.training.low_rank import LowRank

__all__ = ["Head"]


class Head(nn.Module, ABC):
    """A head under training: its parameters are what is stored.

    Attributes:
        taps: Layers of the target whose outputs are its features, side by side in this order.
        vocabulary: int64 [draft vocabulary], the token ids it can name, ascending.
        common: int64, token ids that each step of training weighs, beside its labels and some that it draws;
            None: all that it can name.
        low_rank: Finds the tokens that it names; None: it weighs all that it can name.
    """

    taps: tuple[int, ...]
    vocabulary: torch.Tensor
    common: torch.Tensor | None = None
    low_rank: LowRank | None = None

    @abstractmethod
    def copied(self) -> list[nn.Parameter]:
        """The parameters that a warm start took from the target; their rate rises slowly."""

    def fresh(self) -> list[nn.Parameter]:
        """All other parameters."""
        copied = {id(parameter) for parameter in self.copied()}
        return [parameter for parameter in self.parameters() if id(parameter) not in copied]

    @abstractmethod
    def losses(self, batch: Batch) -> list[torch.Tensor]:
        """The loss of each level, summed over its rows."""

    @abstractmethod
    def named_states(self, batch: Batch) -> Iterator[torch.Tensor]:
        """Yields what the LM head takes at the rows of each level, [N, hidden]."""

    @abstractmethod
    def judged(self, batch: Batch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The losses, and of each level the likeliest token of each row, int64 [N]."""

    @abstractmethod
    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Configuration and tensors under the names that loaders of this kind read."""
