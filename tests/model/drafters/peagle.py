"""Random tiny P-EAGLE heads in their published form."""

from __future__ import annotations

from typing import Any

import torch

from tests.model.drafters.heads import HIDDEN, head_tensors

__all__ = ["PEAGLE", "peagle_tensors"]

PEAGLE: dict[str, Any] = {
    "architectures": ["PEagleDraftModel"],
    "num_hidden_layers": 4,
    "parallel_drafting": True,
    "ptd_token_id": 150,
}
"""Changes of `heads.CONFIG`."""


def peagle_tensors(layers: int = 4) -> dict[str, torch.Tensor]:
    """A head of several layers, and the feature that stands for unknown ones."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.randn(1, 1, 3 * HIDDEN, generator=generator)
    found = head_tensors(layers) | {"mask_hidden": mask}
    return {name.replace("midlayer.", "layers.0."): tensor for name, tensor in found.items()}
