"""What kinds of heads share: layers of a decoder, token vectors, and a configuration of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.config.reader import Reader
from spectrie.model.config.rope import RopeConfig
from spectrie.model.decoder.packing import Dense, Layer, Tensor, Vector, address
from spectrie.model.drafters.description import (
    AttentionLayer,
    CutHead,
    Geometry,
    LowRankHead,
    Target,
)
from spectrie.model.drafters.names import Tensors
from spectrie.model.drafters.vocabulary import read_vocabulary
from spectrie.model.files.arrays import Array
from spectrie.model.files.weights import Weights

__all__ = ["MAX_LEVELS", "HeadReader", "LayerSizes", "read_embedding", "read_layer"]

MAX_LEVELS = 8
"""Levels of a step: no published head was trained for more."""


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Sizes of a head's layers, and which products have biases."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool

    @classmethod
    def of_fields(cls, fields: Reader) -> LayerSizes:
        """Reads them from a head's `config.json`."""
        hidden = fields.count("hidden_size")
        heads = fields.count("num_attention_heads")
        bias = fields.switch("attention_bias")
        return cls(
            hidden=hidden,
            heads=heads,
            kv_heads=fields.count("num_key_value_heads", heads),
            head_dim=fields.count("head_dim", hidden // heads),
            inner=fields.count("intermediate_size"),
            qkv_bias=bias or fields.switch("qkv_bias"),
            output_bias=bias,
            mlp_bias=fields.switch("mlp_bias"),
        )

    @classmethod
    def of_model(cls, config: ModelConfig) -> LayerSizes:
        """Those of a model's own layers."""
        return cls(
            hidden=config.hidden_size,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            inner=config.intermediate_size,
            qkv_bias=config.qkv_bias,
            output_bias=config.output_bias,
            mlp_bias=config.mlp_bias,
        )


def read_layer(
    tensors: Tensors,
    prefixes: Sequence[str],
    sizes: LayerSizes,
    *,
    inputs: int,
    attention_norm: Vector | None,
    norm: Callable[[Sequence[str], int], Vector] | None = None,
) -> Layer:
    """Returns a layer with a dense MLP.

    Args:
        tensors: The file.
        prefixes: What may stand before its names.
        sizes: Its sizes.
        inputs: Width of what the first product takes.
        attention_norm: The norm before it.
        norm: Reads a norm; by default as it is stored.
    """

    def names(name: str) -> list[str]:
        return [f"{prefix}{name}" for prefix in prefixes]

    hidden = sizes.hidden
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    outputs = [("q", queries), ("k", keys), ("v", keys)]
    qkv = [(names(f"self_attn.{name}_proj"), rows) for name, rows in outputs]
    output = [(names("self_attn.o_proj"), hidden)]
    gate_up = [(names(f"mlp.{name}_proj"), sizes.inner) for name in ("gate", "up")]
    down = [(names("mlp.down_proj"), hidden)]
    return Layer(
        attention_norm=attention_norm,
        qkv=tensors.product(qkv, inputs, bias=sizes.qkv_bias),
        output=tensors.product(output, queries, bias=sizes.output_bias),
        mlp_norm=(norm or tensors.vector)(names("post_attention_layernorm.weight"), hidden),
        mlp=Dense(
            tensors.product(gate_up, hidden, bias=sizes.mlp_bias),
            tensors.product(down, sizes.inner, bias=sizes.mlp_bias),
        ),
    )


def read_embedding(
    tensors: Tensors, target: Target, hidden: int, alive: list[Array], where: str
) -> Tensor | None:
    """Returns a head's own token vectors; None where they are the target's."""
    name, config = "embed_tokens.weight", target.config
    if tensors.find(name) is None:
        if hidden != config.hidden_size:
            raise ModelError(
                f"{where}: {name} is missing, and the target's vectors have width "
                f"{config.hidden_size}, expected {hidden}"
            )
        return None
    return address(tensors.take([name], (config.vocabulary_size, hidden)), alive)


class HeadReader:
    """Reads a head that has a configuration of its own.

    Args:
        values: Its `config.json`.
        weights: Its tensors.
        target: The model.
        folder: Where it lies.

    Raises:
        ModelError: The head is for a model of other sizes.
    """

    def __init__(
        self, values: dict[str, Any], weights: Weights, target: Target, folder: Path
    ) -> None:
        self.where = str(folder / "config.json")
        self.values, self.target = values, target
        self.fields = Reader(values, self.where)
        self.alive: list[Array] = []
        self.tensors = Tensors(weights, self.alive, str(folder))
        self.sizes = LayerSizes.of_fields(self.fields)
        self.hidden = self.sizes.hidden
        self.num_layers = self.fields.count("num_hidden_layers", 1)
        activation = values.get("hidden_act") or "silu"
        if activation not in ("silu", "swish"):
            raise ModelError(f"{self.where}: hidden_act is {activation!r}, supported: silu")
        config = target.config
        for name, of_target in (
            ("vocab_size", config.vocabulary_size),
            ("target_hidden_size", config.hidden_size),
        ):
            if self.fields.count(name, of_target) != of_target:
                raise self.fields.refuse(name, f"{of_target}, the target's")

    def vocabulary(self) -> CutHead | LowRankHead | None:
        """Returns the tokens that it names; None for all, by the target's head."""
        named = self.fields.optional_count("draft_vocab_size")
        return read_vocabulary(
            self.tensors, self.target, self.hidden, named, self.alive, self.where
        )

    def embedding(self) -> Tensor | None:
        """Returns its own token vectors; None where they are the target's."""
        return read_embedding(self.tensors, self.target, self.hidden, self.alive, self.where)

    def geometry(self) -> Geometry:
        """Returns its attention."""
        return Geometry(
            heads=self.sizes.heads,
            kv_heads=self.sizes.kv_heads,
            head_dim=self.sizes.head_dim,
            norm_epsilon=self.fields.number("rms_norm_eps", 1e-6),
            layers=[AttentionLayer(window=window) for window in self._windows()],
            rope=RopeConfig.from_values(self.values, self.sizes.head_dim, where=self.where),
        )

    def _windows(self) -> list[int | None]:
        kinds = self.fields.per_layer("layer_types", self.num_layers)
        window = self.fields.optional_count("sliding_window")
        if kinds is None:
            return [window] * self.num_layers
        if any(kind not in ("full_attention", "sliding_attention") for kind in kinds):
            raise self.fields.refuse("layer_types", "full_attention or sliding_attention")
        return [window if kind == "sliding_attention" else None for kind in kinds]
