"""What a drafter is to the core: weights of its kind, its head, and the geometry of its attention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.config.rope import RopeConfig
from spectrie.model.decoder.packing import Layer, Product, Tensor, Vector
from spectrie.model.drafters.origin import Origin
from spectrie.model.files.arrays import Array
from spectrie.model.files.weights import Weights

__all__ = [
    "AttentionLayer",
    "CutHead",
    "Drafter",
    "DrafterKind",
    "FusedWeights",
    "Geometry",
    "LowRankHead",
    "Selector",
    "ShapedHead",
    "Target",
]


@dataclass(frozen=True, slots=True)
class Target:
    """The model that a drafter guesses for.

    Attributes:
        config: Its configuration.
        head: Its LM head, [vocabulary, hidden].
        folder: Where it lies, with its tokenizer.
    """

    config: ModelConfig
    head: Array
    folder: Path


@dataclass(frozen=True, slots=True)
class CutHead:
    """A head for some of the target's tokens.

    Attributes:
        head: Product from the state to these tokens.
        tokens: The target's id of each.
        is_targets: Whether its rows are the target's, so that other tokens can be weighed when asked for.
    """

    head: Product
    tokens: list[int]
    is_targets: bool


@dataclass(frozen=True, slots=True)
class LowRankHead:
    """A head of low rank that finds candidates among all tokens, which the target's head weighs exactly.

    Attributes:
        down: Product from the state to the rank.
        up: Product from the rank to the target's tokens.
    """

    down: Product
    up: Product


@dataclass(frozen=True, slots=True)
class Selector:
    """Chooses among the likeliest tokens by the token before them.

    Attributes:
        projection: Product from the state to the rank.
        predecessor: Numbers of the token before, [vocabulary, rank].
        successor: Numbers of the token itself, likewise.
        candidates: Tokens among which it chooses.
    """

    projection: Product
    predecessor: Tensor
    successor: Tensor
    candidates: int


@dataclass(frozen=True, slots=True)
class ShapedHead:
    """The target's head, and what is made of its logits.

    Attributes:
        multiplier: What they are multiplied by.
        cap: What they come no further than, by a hyperbolic tangent; None for no bound.
        selector: Chooses among the likeliest; None for none.
    """

    multiplier: float
    cap: float | None
    selector: Selector | None


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """Attention of one of a drafter's layers.

    Attributes:
        rotary: Whether queries and keys are rotated.
        window: Keys a row sees; None for all.
        looks_ahead: Whether rows of a block see the rows behind them too.
        query_norm: Weights of the norm of each query head; None for none.
        key_norm: Likewise of keys.
    """

    rotary: bool = True
    window: int | None = None
    query_norm: list[float] | None = None
    key_norm: list[float] | None = None
    looks_ahead: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """Attention of a drafter's layers, of which all have the same heads and angles.

    Attributes:
        positions_ahead: Positions that its rows take behind the target's.
    """

    heads: int
    kv_heads: int
    head_dim: int
    norm_epsilon: float
    layers: list[AttentionLayer]
    rope: RopeConfig
    positions_ahead: int = 0

    @property
    def numbers_per_token(self) -> int:
        """Keys and values that a token takes in all layers."""
        width = -(-self.head_dim // 16) * 16
        return 2 * len(self.layers) * self.kv_heads * width


@dataclass(frozen=True, slots=True)
class Drafter:
    """A drafter that has been read.

    Attributes:
        kind: Such as `eagle3`.
        weights: What the core packs, in the form of the kind.
        vocabulary: Its head; None for the target's own.
        geometry: Its attention.
        taps: Parts of the target's rows that make a feature; 0 for one that reads none.
        max_levels: Levels that it may be asked for in a step.
        alive: Arrays that `weights` and `vocabulary` name by address.
        origin: Where it comes from, if its files say so.
    """

    kind: str
    weights: Any
    vocabulary: CutHead | LowRankHead | ShapedHead | None
    geometry: Geometry
    taps: int
    max_levels: int
    alive: list[Array]
    origin: Origin | None = None

    @property
    def named_tokens(self) -> int | None:
        """Tokens that it can name; None for all of the target's."""
        return len(self.vocabulary.tokens) if isinstance(self.vocabulary, CutHead) else None

    @property
    def entries_stand_alone(self) -> bool:
        """Whether its keys and values of a token depend on no other tokens than the one before."""
        return self.kind.startswith("dflash") or len(self.geometry.layers) == 1


@dataclass(frozen=True, slots=True)
class FusedWeights:
    """What is packed of a head that joins a token's vector and the state before it in one product: EAGLE-2 and layers
    for multi-token prediction. The feature is the output of the target's last norm.

    Attributes:
        vector_norm: Norm of the token's vector; None for as it is.
        state_norm: Norm of the state; None for as it is.
        state_first: Whether `fc` takes the state before the vector.
        fc: Product from both to the residual stream.
        layers: The layers behind it.
        output_norm: Norm before the head; None for none.
        carries_normed: Whether the next level continues from the state after that norm.
        embedding: Token vectors of its own.
    """

    vector_norm: Vector | None
    state_norm: Vector | None
    state_first: bool
    fc: Product
    layers: list[Layer]
    output_norm: Vector | None
    carries_normed: bool
    embedding: Tensor | None


class DrafterKind(Protocol):
    """Reads drafters of one kind; a module of this room is one."""

    ARCHITECTURES: frozenset[str]
    """Names in `config.json` that mean this kind."""

    def read(
        self, values: dict[str, Any], weights: Weights, target: Target, folder: Path
    ) -> Drafter:
        """Returns the drafter of a folder whose `config.json` holds `values`.

        Raises:
            ModelError: A field or a tensor is missing, unknown, or does not fit the target.
        """
