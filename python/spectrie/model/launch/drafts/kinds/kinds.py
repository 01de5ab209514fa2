"""All kinds of drafters that run on a GPU."""

from __future__ import annotations

import torch

from spectrie.errors import ModelError
from spectrie.model.drafters.description import Drafter, FusedWeights
from spectrie.model.drafters.dflash import DflashWeights
from spectrie.model.drafters.eagle3 import Eagle3Weights
from spectrie.model.drafters.model import ModelWeights
from spectrie.model.launch.drafts.blocks import block_of
from spectrie.model.launch.drafts.kinds.dflash import Dflash
from spectrie.model.launch.drafts.kinds.eagle3 import Eagle3
from spectrie.model.launch.drafts.kinds.fused import Fused
from spectrie.model.launch.drafts.kinds.kind import Kind
from spectrie.model.launch.drafts.kinds.model import Model
from spectrie.model.launch.drafts.kinds.peagle import Peagle
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["kind_of"]


def kind_of(
    drafter: Drafter, tensors: DraftTensors, table: torch.Tensor, head: torch.Tensor
) -> Kind:
    """Copies a drafter's weights to the device.

    Args:
        drafter: As it was read.
        tensors: Copies.
        table: The model's token vectors, [vocabulary, hidden].
        head: Rows of the drafter's head, which are the token vectors of a model that has none.

    Raises:
        ModelError: Drafters of this form do not run on a GPU.
    """
    weights, block = drafter.weights, block_of(drafter)
    if isinstance(weights, ModelWeights):
        return Model(weights, tensors, head)
    if isinstance(weights, FusedWeights):
        return Fused(weights, tensors, table)
    if isinstance(weights, DflashWeights) and block is not None:
        return Dflash(weights, block, tensors, table)
    if isinstance(weights, Eagle3Weights) and weights.parallel is not None:
        return Peagle(weights, weights.parallel, tensors, table)
    if isinstance(weights, Eagle3Weights):
        return Eagle3(weights, tensors, table)
    raise ModelError(f"drafters of the kind {drafter.kind} run on a CPU alone, so far")
