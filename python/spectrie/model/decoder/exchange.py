"""What the ranks that share a decoder send one another in a forward."""

from __future__ import annotations

import torch

from spectrie.model.decoder.linear import OpenProduct, RankSums
from spectrie.model.operators import Result
from spectrie.model.parallel.partition import Partition
from spectrie.model.parallel.split import Share
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import PartialSums

__all__ = ["Exchange", "IntoStream"]

IntoStream = OpenProduct | RankSums
"""An output or down projection, which the residual stream takes."""


class Exchange:
    """Makes whole what this rank computes a part of; on a single rank everything is whole already."""

    def __init__(self, partition: Partition | None) -> None:
        """Takes the parts of all ranks; None for a single rank."""
        self._partition = partition

    def whole(self, part: torch.Tensor, what: str) -> torch.Tensor:
        """Returns all columns of a result, given this rank's.

        Args:
            part: [rows, columns].
            what: Its name in `Partition`.

        Raises:
            RankLost: A rank ended or is silent.
        """
        if self._partition is None:
            return part
        shares: list[Share] = getattr(self._partition, what)
        return self._partition.gathered(part, shares)

    def into_stream(
        self, product: IntoStream, x: torch.Tensor, what: str, scratch: Scratch
    ) -> Result:
        """Computes an output or down projection of all columns of `x`: one exchange where ranks share its
        terms, two where they share its outputs.

        Args:
            product: This rank's part of it.
            x: This rank's columns of its input.
            what: Their name in `Partition`.
            scratch: Where results go.

        Raises:
            RankLost: A rank ended or is silent.
        """
        if isinstance(product, RankSums):
            sums = self._all_sums(product(x, scratch))
            return PartialSums(sums, product.bias)
        part = product(self.whole(x, what), scratch)
        # Sums are always of whole weights.
        return part if isinstance(part, PartialSums) else self.whole(part, "hidden")

    def _all_sums(self, own: torch.Tensor) -> torch.Tensor:
        if self._partition is None:
            raise ValueError("sums of ranks on a single rank")
        return self._partition.stacked(own)
