"""Whether a GPU multiplies exactly, without loading a model: products of its sizes, with drawn weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from spectrie.model import gpu
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.decoder import DecoderWeights
from spectrie.model.files.random_weights import RandomWeights
from spectrie.model.runner.self_check import differing_products

__all__ = ["why_not_exact"]


def why_not_exact(folder: Path) -> str | None:
    """Returns why a model would not be served with exact arithmetic on one GPU of this machine; None if
    nothing speaks against it. Each start of a server checks more than this.

    Compiles kernels, which takes some seconds the first time.

    Raises:
        ModelError: The model's configuration cannot be read.
    """
    if gpu.compiler() is None:
        return "Triton is not installed"
    config = ModelConfig.from_folder(folder)
    device = gpu.device(0)
    weights = DecoderWeights(
        replace(config, num_layers=_layers_of_all_kinds(config)),
        RandomWeights(str(device)),
        torch.bfloat16,
        device,
        exact=True,
    )
    products = differing_products(weights)
    return f"rows change one another's bytes in {', '.join(products)}" if products else None


def _layers_of_all_kinds(config: ModelConfig) -> int:
    """Returns how many of the first layers have products of all sizes: those of one kind are alike."""
    if config.mixture is None:
        return 1
    dense = [layer in config.mixture.dense_layers for layer in range(config.num_layers)]
    return 1 + max(dense.index(kind) for kind in set(dense))
