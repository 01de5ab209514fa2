"""DFLASH heads by their published names: one forward fills in a block of masks behind the last token.

The context of every layer is one product of outputs of the target's layers; a layer makes keys and values of it
without a norm of its own. DFLASH 2 has convolutions over the block around both halves of a layer, and a selector that
chooses among the likeliest tokens of a place by the token before it. Layouts: z-lab's dflash, SGLang, vLLM; with or
without `model.` before the names. Forms that compute something else are refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.fields import DECODER_FIELDS, refuse_other_fields, refuse_quantised
from spectrie.model.config.reader import Reader
from spectrie.model.decoder.packing import Layer, Product, Tensor, Vector, address
from spectrie.model.drafters.description import (
    AttentionLayer,
    Drafter,
    Geometry,
    Selector,
    ShapedHead,
    Target,
)
from spectrie.model.drafters.head import HeadReader, read_layer
from spectrie.model.files.arrays import widened
from spectrie.model.files.weights import Weights

__all__ = ["ARCHITECTURES", "DflashWeights", "default_layers", "read"]

ARCHITECTURES = frozenset({"DFlashDraftModel", "DFlash2DraftModel"})

_DFLASH_FIELDS = frozenset(
    """
    block_size conv_group_size conv_kernel_size final_logit_softcapping input_embedding_scale mask_token_id
    output_multiplier selector_rank selector_top_k target_layer_ids
    """.split()
)
"""These lie in `dflash_config`, in older files beside it."""
_FIELDS = (
    DECODER_FIELDS
    | _DFLASH_FIELDS
    | {"dflash_config", "is_causal", "num_target_layers", "target_hidden_size"}
)

_BLOCKS = range(3, 64)
"""Rows of a block: a tree has no more nodes, and one of two rows would guess a single token."""

_MISSING = (
    (r"markov_head\.", "a Markov head (DSPARK)"),
    (r"qkv_proj\.", "a fused qkv_proj (Laguna)"),
    (r"g_proj\.", "a gate of attention, g_proj (Laguna)"),
    (r"aux_hidden_norms\.", "norms of the parts of a feature, aux_hidden_norms (Laguna)"),
)
"""Patterns of tensors, and what has them."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """The convolutions before and behind one half of a layer.

    Attributes:
        base: What a column's weights are without the row, [2 * taps * hidden].
        kernel: Product to what the row adds for each group of columns, [2 * taps * groups].
        taps: Rows that one takes, itself included.
    """

    base: Vector
    kernel: Product
    taps: int


@dataclass(frozen=True, slots=True)
class Around:
    """The convolutions of a layer."""

    attention: Convolution
    mlp: Convolution


@dataclass(frozen=True, slots=True)
class DflashWeights:
    """What the core packs.

    Attributes:
        tapped_layers: Layers of the target whose outputs make a feature.
        fc: Product from feature to context.
        context_norm: Norm of the context.
        layers: The layers.
        output_norm: Norm before the target's head.
        mask_token: The token that fills the block.
        mask_vector: What stands in place of its vector; None for that vector.
        block: Rows of a block, the last token's included.
        convolutions: Of each layer; none in DFLASH 1.
        vector_scale: What vectors of a block are multiplied by.
    """

    tapped_layers: list[int]
    fc: Product
    context_norm: Vector
    layers: list[Layer]
    output_norm: Vector
    mask_token: int
    mask_vector: Vector | None
    block: int
    convolutions: list[Around]
    vector_scale: float


def read(values: dict[str, Any], weights: Weights, target: Target, folder: Path) -> Drafter:
    """Returns the head of a folder; see `DrafterKind.read`."""
    where = str(folder / "config.json")
    own = values.get("dflash_config") or {}
    if not isinstance(own, dict):
        raise ModelError(f"{where}: dflash_config is {own!r}, expected an object")
    missing = [
        kind for pattern, kind in _MISSING if any(re.search(pattern, n) for n in weights.names())
    ]
    if missing:
        raise ModelError(
            f"{folder} has {', '.join(missing)}, which drafters here do not compute; choose drafter 'off'"
        )
    for field, tensor in (
        ("conv_kernel_size", "layers.0.attention_conv.base_kernel"),
        ("selector_rank", "candidate_selector.hidden_projection.weight"),
    ):
        if {**values, **own}.get(field) is not None and tensor not in _plain_names(weights):
            raise ModelError(f"{where}: {field} is given, but there is no tensor {tensor}")
    refuse_quantised(values, where)
    refuse_other_fields(values, where, _FIELDS)
    refuse_other_fields(own, f"{where}: dflash_config", _DFLASH_FIELDS)
    return _Reader(values, own, weights, target, folder).drafter()


def _plain_names(weights: Weights) -> set[str]:
    return {name.removeprefix("model.") for name in weights.names()}


class _Reader(HeadReader):
    def __init__(
        self,
        values: dict[str, Any],
        own: dict[str, Any],
        weights: Weights,
        target: Target,
        folder: Path,
    ) -> None:
        super().__init__(values, weights, target, folder)
        self.in_own = own
        self.own_values = {**values, **own}
        self.own = Reader(self.own_values, self.where)
        config = target.config
        for name, given, of_target in (
            ("hidden_size", self.hidden, config.hidden_size),
            (
                "num_target_layers",
                self.fields.count("num_target_layers", config.num_layers),
                config.num_layers,
            ),
        ):
            if given != of_target:
                raise self.fields.refuse(name, f"{of_target}, the target's")

    def drafter(self) -> Drafter:
        hidden, tensors = self.hidden, self.tensors
        block = self.block()
        taps = self.tapped_layers()
        in_features = len(taps) * hidden
        mask = tensors.find("mask_embedding")
        selector = self.selector()
        return Drafter(
            # Answers of a second head depend on the token before them too.
            kind="dflash" if selector is None else "dflash2",
            weights=DflashWeights(
                tapped_layers=taps,
                fc=tensors.product([(["fc"], hidden)], in_features, bias=False),
                context_norm=tensors.vector(["hidden_norm.weight"], hidden),
                layers=[self.layer(index) for index in range(self.num_layers)],
                output_norm=tensors.vector(["norm.weight"], hidden),
                mask_token=self.mask_token(is_needed=mask is None),
                mask_vector=None if mask is None else tensors.vector(["mask_embedding"], hidden),
                block=block,
                convolutions=self.convolutions(),
                vector_scale=self.own.number("input_embedding_scale", 1.0),
            ),
            vocabulary=self.head(selector),
            geometry=self.attention(block),
            taps=len(taps),
            max_levels=block - 1,
            alive=self.alive,
        )

    def layer(self, index: int) -> Layer:
        prefix = f"layers.{index}."
        norm = self.tensors.vector([f"{prefix}input_layernorm.weight"], self.hidden)
        return read_layer(
            self.tensors, [prefix], self.sizes, inputs=self.hidden, attention_norm=norm
        )

    def attention(self, block: int) -> Geometry:
        """Returns the geometry: a block sees all of itself, or in some layers what comes before."""

        def norm(index: int, name: str) -> list[float]:
            names = [f"layers.{index}.self_attn.{name}_norm.weight"]
            return list(self.tensors.vector(names, self.sizes.head_dim).tolist())

        geometry = self.geometry()
        layers = [
            AttentionLayer(
                window=window,
                looks_ahead=not is_causal,
                query_norm=norm(index, "q"),
                key_norm=norm(index, "k"),
            )
            for index, (window, is_causal) in enumerate(self.sight())
        ]
        return Geometry(
            heads=geometry.heads,
            kv_heads=geometry.kv_heads,
            head_dim=geometry.head_dim,
            norm_epsilon=geometry.norm_epsilon,
            layers=layers,
            rope=geometry.rope,
            positions_ahead=block,
        )

    def sight(self) -> list[tuple[int | None, bool]]:
        """Returns for each layer its window, and whether a row of a block sees none behind it.

        As in the published code, `sliding_attention` is causal unless `is_causal` says something else of all layers,
        and its window counts with `use_sliding_window` alone.
        """
        has_windows = self.fields.switch("use_sliding_window")
        kinds = self.values.get("layer_types")
        if kinds is None and has_windows:
            raise self.fields.refuse("use_sliding_window", "layer_types beside it")
        windows = self._windows() if kinds else [None] * self.num_layers
        is_sliding = [kind == "sliding_attention" for kind in (kinds or [])[: self.num_layers]]
        is_sliding = is_sliding or [False] * self.num_layers
        if has_windows and any(is_sliding) and self.values.get("sliding_window") is None:
            raise ModelError(
                f"{self.where}: sliding_window is missing, expected a number, as layer_types names windows"
            )
        is_causal = is_sliding
        if self.values.get("is_causal") is not None:
            is_causal = [self.fields.switch("is_causal")] * self.num_layers
        found = [
            (window if has_windows else None, causal)
            for window, causal in zip(windows, is_causal, strict=True)
        ]
        block = self.block()
        if any(window is not None and window < block and not causal for window, causal in found):
            raise self.fields.refuse(
                "sliding_window", f"{block} or more, a block's rows, where is_causal is false"
            )
        return found

    def convolutions(self) -> list[Around]:
        """Returns those of each layer; none if the file has none."""
        if self.tensors.find("layers.0.attention_conv.base_kernel") is None:
            return []
        taps, group = self.own.count("conv_kernel_size"), self.own.count("conv_group_size")
        if self.hidden % group:
            raise self.own.refuse("conv_group_size", f"a divisor of hidden_size {self.hidden}")
        hidden, kernels = self.hidden, 2 * taps * (self.hidden // group)

        def convolution(prefix: str) -> Convolution:
            base = self.tensors.take([f"{prefix}.base_kernel"], (2, taps, hidden))
            return Convolution(
                base=widened(base).flatten(),
                kernel=self.tensors.product(
                    [([f"{prefix}.kernel_projection"], kernels)], hidden, bias=False
                ),
                taps=taps,
            )

        return [
            Around(
                convolution(f"layers.{index}.attention_conv"),
                convolution(f"layers.{index}.mlp_conv"),
            )
            for index in range(self.num_layers)
        ]

    def head(self, selector: Selector | None) -> ShapedHead | None:
        """Returns what follows the target's head; None for nothing."""
        multiplier = self.own.number("output_multiplier", 1.0)
        # The published code has none where it is 0.
        cap = None
        if self.own_values.get("final_logit_softcapping"):
            cap = self.own.number("final_logit_softcapping", 0.0)
        if selector is None and cap is None and multiplier == 1.0:
            return None
        return ShapedHead(multiplier, cap, selector)

    def selector(self) -> Selector | None:
        """Returns the selector of candidates; None if the file has none."""
        prefix = "candidate_selector."
        if self.tensors.find(f"{prefix}hidden_projection.weight") is None:
            return None
        rank, size = self.own.count("selector_rank"), self.target.config.vocabulary_size

        def table(name: str) -> Tensor:
            # Files lack the ending, which a module's own state has.
            names = [f"{prefix}{name}_codebook{ending}" for ending in ("", ".weight")]
            return address(self.tensors.take(names, (size, rank)), self.alive)

        return Selector(
            projection=self.tensors.product(
                [([f"{prefix}hidden_projection"], rank)], self.hidden, bias=False
            ),
            predecessor=table("predecessor"),
            successor=table("successor"),
            candidates=self.own.count("selector_top_k"),
        )

    def block(self) -> int:
        """Returns the rows of a block; newer files have them in `dflash_config`."""
        given = {self.values.get("block_size"), self.in_own.get("block_size")} - {None}
        size = given.pop() if len(given) == 1 else None
        if type(size) is not int or size not in _BLOCKS:
            raise ModelError(
                f"{self.where}: block_size is {self.values.get('block_size')!r}, in dflash_config "
                f"{self.in_own.get('block_size')!r}; expected one number from {_BLOCKS[0]} to {_BLOCKS[-1]}"
            )
        return size

    def mask_token(self, *, is_needed: bool) -> int:
        """Returns the token that fills blocks; 0 where there is a vector instead."""
        token, size = self.own_values.get("mask_token_id"), self.target.config.vocabulary_size
        if token is None and not is_needed:
            return 0
        if type(token) is not int or not 0 <= token < size:
            raise ModelError(
                f"{self.where}: mask_token_id is {token!r}, expected 0 to {size - 1} in dflash_config, or a "
                "tensor mask_embedding"
            )
        return token

    def tapped_layers(self) -> list[int]:
        """Returns the layers whose outputs make the feature, 0 = the first."""
        num_layers, ids = self.target.config.num_layers, self.own_values.get("target_layer_ids")
        if ids is None:
            ids = default_layers(num_layers, self.num_layers)
        is_list = isinstance(ids, list) and ids and all(type(one) is int for one in ids)
        if not is_list or not all(0 <= one < num_layers for one in ids):
            raise ModelError(
                f"{self.where}: target_layer_ids is {ids!r}, expected layers from 0 to {num_layers - 1}"
            )
        return list(ids)


def default_layers(num_layers: int, own_layers: int) -> list[int]:
    """Returns the layers of a target whose outputs a head of so many layers reads by default."""
    if own_layers == 1:
        return [num_layers // 2]
    return [round(1 + index * (num_layers - 4) / (own_layers - 1)) for index in range(own_layers)]
