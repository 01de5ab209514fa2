"""z-lab's own code of DFLASH, from the package index, with a head's tensors in it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest
import torch

from bench.support.packages import Package, fetch

__all__ = ["published_head", "published_model"]

# Imported from the wheel itself: what it wants installed is for its command line alone.
_PACKAGE = Package(
    "dflash",
    "dflash-0.1.0-py3-none-any.whl",
    "b3fe38d9413efc30a952c8b38b34f1dcc696ba6d7b865acbf540a34cc53afaa2",
)


def published_model() -> Any:
    """Returns the package's module of models; skips the test where the index cannot be reached."""
    try:
        wheel = str(fetch(_PACKAGE))
    except OSError as error:
        pytest.skip(
            f"{_PACKAGE.file} is not in the cache, and the index cannot be reached: {error}"
        )
    if wheel not in sys.path:
        sys.path.append(wheel)
    return import_module("dflash.model")


def published_head(
    name: str, config: dict[str, Any], tensors: dict[str, torch.Tensor], embedding: torch.Tensor
) -> Any:
    """Returns a head of the package.

    Args:
        name: Its class.
        config: What `config.json` holds.
        tensors: By the names of its files; all must be taken.
        embedding: The target's token vectors, of which the head's configuration says how many.
    """
    module = published_model()
    given = {name: value for name, value in config.items() if value is not None}
    given["rope_parameters"] = {"rope_type": "default", "rope_theta": given["rope_theta"]}
    head = getattr(module, name)(module.Qwen3Config(**given | {"vocab_size": len(embedding)}))
    # `from_pretrained` renames these two.
    stored = {
        f"{one}.weight" if one.endswith("_codebook") else one: tensor
        for one, tensor in tensors.items()
    }
    head.load_state_dict(stored, strict=True)
    return head.float().eval()
