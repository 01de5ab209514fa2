"""A drafter's weights on a GPU."""

from __future__ import annotations

import torch

from spectrie.model.decoder.decoder import DecoderWeights
from spectrie.model.drafters.description import Drafter
from spectrie.model.launch.drafts.blocks import block_of
from spectrie.model.launch.drafts.kinds.kinds import kind_of
from spectrie.model.launch.drafts.naming.naming import naming_of
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["DraftWeights"]


class DraftWeights:
    """A drafter's weights on a device.

    Attributes:
        kind: How it computes.
        naming: Its head.
        bytes: Memory of both.
        geometry: Its attention.
        block: What a row of a first level becomes; None where it stays one row.
    """

    def __init__(
        self,
        drafter: Drafter,
        target: DecoderWeights,
        dtype: torch.dtype,
        device: torch.device,
        *,
        exact: bool,
    ) -> None:
        """Copies them.

        Args:
            drafter: As it was read for the model.
            target: The model's, of a single rank.
            dtype: Number format of products.
            device: Where they go.
            exact: Whether each product adds in one order, whatever the rows.

        Raises:
            ModelError: Drafters of this form do not run on a GPU.
        """
        tensors = DraftTensors(dtype, device, exact=exact)
        self.naming = naming_of(drafter, tensors, (target.head, target.head_rows))
        self.kind = kind_of(drafter, tensors, target.embedding, self.naming.rows)
        self.bytes = tensors.bytes
        self.geometry = drafter.geometry
        self.block = block_of(drafter)
