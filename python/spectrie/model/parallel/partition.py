"""All ranks' parts of a model, and the way to make whole what they computed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.parallel.group import Group
from spectrie.model.parallel.split import Share, Split

__all__ = ["Partition"]


class Partition:
    """What each rank computes of every product.

    Attributes:
        own: This rank's part.
        attended: Every rank's columns of the attended heads.
        hidden: Of the output and the down projection.
        inner: Of the gated activation.
        expert: Of an expert's.
        vocabulary: Of the logits.
    """

    def __init__(self, config: ModelConfig, group: Group) -> None:
        """The partition of `config` among the group's ranks.

        Raises:
            ConfigError: The heads cannot be shared out among so many.
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
        """This rank's among `shares`."""
        return shares[self._group.seat.rank]

    def fill(self, whole: torch.Tensor, shares: Sequence[Share]) -> None:
        """Fills the other ranks' columns in: see `Group.gather`."""
        self._group.gather(whole, shares)

    def gathered(self, part: torch.Tensor, shares: Sequence[Share]) -> torch.Tensor:
        """All columns, of which `part` has this rank's: [rows, width]."""
        own = self.rank_of(shares)
        whole = part.new_empty(part.shape[0], own.total)
        whole[:, own.columns] = part
        self.fill(whole, shares)
        return whole
