"""The parts of a model on all ranks, and the gathering of their results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.parallel.group import Group
from spectrie.model.parallel.split import Share, Split

__all__ = ["Partition"]


class Partition:
    """The columns of every product that each rank computes.

    Attributes:
        own: This rank's part.
        attended: Every rank's columns of the attended heads.
        hidden: Columns of the output and the down projection.
        inner: Columns of the gated activation.
        expert: Columns of an expert's gated activation.
        vocabulary: Columns of the logits.
    """

    def __init__(self, config: ModelConfig, group: Group) -> None:
        """Partitions `config` among the group's ranks.

        Raises:
            ConfigError: The heads cannot be divided among that many ranks.
        """
        size = group.seat.size
        splits = [Split.of(config, rank, size) for rank in range(size)]
        self._group = group
        self.own = splits[group.seat.rank]
        self.attended = [split.heads.times(config.head_dim) for split in splits]
        self.hidden = [split.hidden for split in splits]
        self.inner = [split.inner for split in splits]
        self.expert = [split.expert for split in splits]
        self.vocabulary = [split.vocabulary for split in splits]

    def rank_of(self, shares: Sequence[Share]) -> Share:
        """Returns this rank's entry of `shares`."""
        return shares[self._group.seat.rank]

    def fill(self, whole: torch.Tensor, shares: Sequence[Share]) -> None:
        """Gathers the other ranks' columns; see `Group.gather`."""
        self._group.gather(whole, shares)

    def fill_bytes(self, whole: NDArray[np.uint8], shares: Sequence[Share]) -> None:
        """Like `fill`, for columns of bytes."""
        self.fill(torch.from_numpy(whole), shares)

    def stacked(self, own: torch.Tensor) -> torch.Tensor:
        """Returns what every rank has, in their order: [ranks, rows, width]; see `Group.stack`."""
        return self._group.stack(own)

    def gathered(self, part: torch.Tensor, shares: Sequence[Share]) -> torch.Tensor:
        """Returns all columns, [rows, width], given this rank's `part`."""
        own = self.rank_of(shares)
        whole = part.new_empty(part.shape[0], own.total)
        whole[:, own.columns] = part
        self.fill(whole, shares)
        return whole
