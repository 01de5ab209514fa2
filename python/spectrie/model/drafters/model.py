"""A complete model of the target's tokenizer as its drafter: a smaller one, or the target itself.

It guesses from tokens alone, with keys and values of its own in the target's slots. Which is meant is decided by
what the folder holds: a head, or a layer for multi-token prediction, comes before the model that may lie beside
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.model.config.families import FAMILIES
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import LayerReader, attention_settings
from spectrie.model.decoder.layout import EMBEDDING, FINAL_NORM, HEAD
from spectrie.model.decoder.packing import Layer, Product, Tensor, Vector, address
from spectrie.model.drafters.description import (
    AttentionLayer,
    CutHead,
    Drafter,
    Geometry,
    Target,
)
from spectrie.model.drafters.same_tokenizer import refuse_other_tokenizer
from spectrie.model.files.arrays import Array, equal_numbers, widened
from spectrie.model.files.weights import Weights

__all__ = ["ARCHITECTURES", "ModelWeights", "is_complete", "left_over", "read"]

ARCHITECTURES = frozenset(FAMILIES)

_MAX_LEVELS = 16
"""Levels of a step: it is as right at the last as at the first, so what bounds them is what they cost."""


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """What the core packs.

    Attributes:
        layers: The layers.
        output_norm: Norm before the head.
        embedding: Token vectors; None for the rows of the head.
    """

    layers: list[Layer]
    output_norm: Vector
    embedding: Tensor | None


def is_complete(weights: Weights) -> bool:
    """Whether the files hold a whole decoder rather than a head."""
    return all(
        name in weights for name in (EMBEDDING, FINAL_NORM, "model.layers.0.input_layernorm.weight")
    )


def left_over(weights: Weights) -> list[str]:
    """Returns tensors that a whole decoder may have and that nobody reads: the copy of a tied head."""
    return [HEAD] if HEAD in weights else []


def read(values: dict[str, Any], weights: Weights, target: Target, folder: Path) -> Drafter:
    """Returns the model of a folder as a drafter; see `DrafterKind.read`."""
    config = ModelConfig.from_folder(folder)
    refuse_other_tokenizer(folder, target.folder)
    alive: list[Array] = []
    reader = LayerReader(weights, alive=alive)
    shape = (config.vocabulary_size, config.hidden_size)
    embedding = None if config.tied_head else address(weights.take(EMBEDDING, shape), alive)
    layers = range(config.num_layers)
    return Drafter(
        kind="draft_model",
        weights=ModelWeights(
            layers=[reader.layer(config, index) for index in layers],
            output_norm=widened(weights.take(FINAL_NORM, (config.hidden_size,))),
            embedding=embedding,
        ),
        vocabulary=_vocabulary(weights.take(_head(config), shape), target, alive),
        geometry=Geometry(
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            norm_epsilon=config.norm_epsilon,
            layers=[
                AttentionLayer(*attention_settings(config, weights, index)) for index in layers
            ],
            rope=config.rope,
        ),
        taps=0,
        max_levels=_MAX_LEVELS,
        alive=alive,
    )


def _head(config: ModelConfig) -> str:
    return EMBEDDING if config.tied_head else HEAD


def _vocabulary(rows: Array, target: Target, alive: list[Array]) -> CutHead | None:
    """Returns the model's head; None where it is the target's own.

    Models of one tokenizer differ in how many unused rows they have behind its tokens, so that a head may have
    more or fewer rows than the target's.
    """
    if equal_numbers(rows, target.head):
        return None
    rows = rows[: target.config.vocabulary_size]
    product = Product([address(rows, alive)], None, rows.shape[1])
    return CutHead(product, list(range(len(rows))), is_targets=False)
