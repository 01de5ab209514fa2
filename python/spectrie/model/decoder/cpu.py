"""The decoder of the compiled core: one call per forward; each row is computed independently."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from spectrie import _core
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.layout import (
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    DenseLayout,
    MixtureLayout,
    ProductLayout,
    layer_layout,
)
from spectrie.model.decoder.packing import Dense, Layer, Mixture, Product, Tensor, Vector, address
from spectrie.model.decoder.sizing import CacheSize
from spectrie.model.files.arrays import ITEM_SIZES, Array, widened
from spectrie.model.files.weights import Weights
from spectrie.model.parallel.split import Share, Split
from spectrie.model.plan import PlanArrays, StepResult

if TYPE_CHECKING:
    from spectrie.model.parallel.partition import Partition

__all__ = ["CpuDecoder", "CpuWeights", "LayerReader", "attention_settings"]

_LAYERS_TOGETHER = 8
"""Layers packed in one call: enough to occupy every thread, few enough to report progress. One layer
with experts is enough."""

_Settings = tuple[bool, int | None, list[float] | None, list[float] | None]
"""Rotation, window, query norm and key norm of one layer."""


class CpuWeights:
    """A checkpoint's weights, packed for the products of the core."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        dtype: str,
        threads: int,
        report: Callable[[str], None],
        split: Split | None = None,
        whole_head: bool = False,
    ) -> None:
        """Packs the weights, or the part of them in `split`.

        Args:
            config: The whole model.
            weights: Its checkpoint.
            dtype: `float32` or `bfloat16`.
            threads: Threads that pack.
            report: Receives one line per stage.
            split: One rank's part; None for the whole model.
            whole_head: Whether the head of all tokens is packed beside this part's, for drafters.

        Raises:
            ModelError: A tensor is missing or has another shape.
        """
        self.core = _core.CpuWeights(bfloat16=dtype == "bfloat16", threads=threads)
        self.itemsize = ITEM_SIZES[dtype]
        self.settings: list[_Settings] = []
        together = _LAYERS_TOGETHER if config.mixture is None else 1
        for first in range(0, config.num_layers, together):
            last = min(first + together, config.num_layers)
            report(f"packing layers {first + 1} to {last} of {config.num_layers}")
            reader = LayerReader(weights, split)
            self.core.add_layers([reader.layer(config, index) for index in range(first, last)])
            self.settings += [
                attention_settings(config, weights, index) for index in range(first, last)
            ]
        report("packing the head")
        reader = LayerReader(weights, split)
        shape = (config.vocabulary_size, config.hidden_size)
        tokens = split.vocabulary.columns if split else slice(None)
        # A part of a tied head lacks the other parts' tokens.
        shared = config.tied_head and (split is None or whole_head)
        name = EMBEDDING if config.tied_head else HEAD
        head = reader.tensor(name, shape, tokens)
        self.core.set_ends(
            embedding=None if shared else reader.tensor(EMBEDDING, shape),
            final_norm=_vector(weights, FINAL_NORM, config.hidden_size),
            head=Product([head], None, config.hidden_size),
        )
        if split is not None and whole_head:
            whole = Product([reader.tensor(name, shape)], None, config.hidden_size)
            self.core.set_whole_head(whole)


class _Part:
    """One rank's part of a decoder for the core: its columns, and a callback for the others'."""

    def __init__(self, partition: Partition, itemsize: int) -> None:
        def columns(shares: list[Share]) -> tuple[int, int, int]:
            own = partition.rank_of(shares)
            return own.first, own.count, own.total

        self._partition = partition
        self.attended = columns(partition.attended)
        self.hidden = columns(partition.hidden)
        self.gated = columns(partition.inner)
        self.expert = columns(partition.expert)
        self.vocabulary = columns(partition.vocabulary)
        # In the core's order, in bytes: what they mean is nothing to the exchange.
        self._shares = [
            [share.times(width) for share in shares]
            for shares, width in (
                (partition.attended, itemsize),
                (partition.hidden, itemsize),
                (partition.inner, itemsize),
                (partition.expert, itemsize),
                (partition.vocabulary, 4),
            )
        ]

    def gather(self, whole: int, address: int, rows: int) -> None:
        """Gathers the other ranks' columns of `rows` rows at an address of the core."""
        shares = self._shares[whole]
        width = shares[0].total
        memory = (ctypes.c_ubyte * (rows * width)).from_address(address)
        self._partition.fill_bytes(np.ctypeslib.as_array(memory).reshape(rows, width), shares)


class CpuDecoder:
    """A decoder with its weights and key-value cache."""

    def __init__(
        self,
        config: ModelConfig,
        weights: CpuWeights,
        size: CacheSize,
        *,
        max_batch_rows: int,
        threads: int,
        partition: Partition | None = None,
    ) -> None:
        """Takes ownership of the weights and reserves the cache.

        Args:
            config: The whole model.
            weights: Packed weights; with a partition, this rank's part.
            size: Size of the cache.
            max_batch_rows: Maximum rows of a forward.
            threads: Threads that share a forward.
            partition: Parts of all ranks; None for a single rank.

        Raises:
            ValueError: The core does not support a size, or there is no memory for the cache.
        """
        self._partition = partition
        cosines, sines = config.rope.tables(size.max_context)
        here = config if partition is None else partition.own.local(config)
        self._core = _core.CpuDecoder(
            weights.core,
            heads=here.num_heads,
            kv_heads=here.num_kv_heads,
            head_dim=config.head_dim,
            num_pages=size.num_pages,
            max_context=size.max_context,
            max_rows=max_batch_rows,
            scale=config.head_dim**-0.5,
            norm_epsilon=config.norm_epsilon,
            cosines=cosines,
            sines=sines,
            layers=weights.settings,
            threads=threads,
            part=None if partition is None else _Part(partition, weights.itemsize),
        )

    @property
    def core(self) -> _core.CpuDecoder:
        """The core's decoder, of this rank."""
        return self._core

    @property
    def native(self) -> _core.CpuDecoder | None:
        """The core's decoder; None with a partition, whose ranks meet in Python."""
        return None if self._partition is not None else self._core

    @property
    def num_bytes(self) -> int:
        """Bytes of weights and workspaces, without cache and logits."""
        return self._core.num_bytes

    def forward(self, plan: PlanArrays) -> StepResult:
        """Computes the logits of the plan's sample rows and the likeliest tokens of its top rows.

        The next forward overwrites the buffer of the logits.

        Raises:
            ValueError: The plan is inconsistent, or exceeds the cache or the vocabulary.
            RankLost: Another rank ended or does not respond.
        """
        logits, ids, probabilities = self._core.forward(plan)
        # Where there are as many top rows as sample rows they are the same rows.
        tokens = ids[:, 0] if len(ids) == len(logits) else None
        return StepResult(logits, ids, probabilities, tokens)

    def begin(self, plan: PlanArrays) -> Callable[[], StepResult]:
        """See `RankForward`: a CPU has nothing to wait for."""
        result = self.forward(plan)
        return lambda: result

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads that share a forward."""
        self._core.set_threads(threads)


class LayerReader:
    """Passes tensors to the core by address and keeps them alive until they are packed.

    Args:
        weights: The checkpoint.
        split: One rank's part; None for the whole model.
        alive: Receives the arrays; by default they live as long as this.
    """

    def __init__(
        self,
        weights: Weights,
        split: Split | None = None,
        alive: list[Array] | None = None,
    ) -> None:
        self._weights = weights
        self._split = split
        self._alive: list[Array] = [] if alive is None else alive

    def tensor(self, name: str, shape: tuple[int, ...], rows: slice = slice(None)) -> Tensor:
        """Returns a tensor, or some rows of it."""
        return address(self._weights.take(name, shape)[rows], self._alive)

    def product(self, layout: ProductLayout) -> Product:
        """Returns a product of stacked matrices."""
        parts = [
            self.tensor(
                f"{part.name}.weight", (part.rows.total, layout.in_features), part.rows.columns
            )
            for part in layout.parts
        ]
        bias = None
        if layout.bias:
            biases = [
                _vector(self._weights, f"{part.name}.bias", part.rows.total)[part.rows.columns]
                for part in layout.parts
            ]
            bias = np.concatenate(biases)
        return Product(parts, bias, layout.in_features)

    def layer(self, config: ModelConfig, index: int) -> Layer:
        """Returns a layer without its head norms; see `attention_settings`."""
        layout = layer_layout(config, index, self._split)
        return Layer(
            attention_norm=_vector(self._weights, layout.attention_norm, config.hidden_size),
            qkv=self.product(layout.qkv),
            output=self.product(layout.output),
            mlp_norm=_vector(self._weights, layout.mlp_norm, config.hidden_size),
            mlp=self._mlp(layout.mlp),
        )

    def _mlp(self, layout: DenseLayout | MixtureLayout) -> Dense | Mixture:
        if isinstance(layout, DenseLayout):
            return self._dense(layout)
        return Mixture(
            router=self.product(layout.router),
            experts=[self._dense(expert) for expert in layout.experts],
            chosen=layout.num_chosen,
            normalised=layout.normalised,
        )

    def _dense(self, layout: DenseLayout) -> Dense:
        return Dense(self.product(layout.gate_up), self.product(layout.down))


def _vector(weights: Weights, name: str, width: int) -> Vector:
    return widened(weights.take(name, (width,)))


def attention_settings(config: ModelConfig, weights: Weights, index: int) -> _Settings:
    """Returns rotation, window, query norm and key norm of a layer, as the core takes them."""
    names = layer_layout(config, index).head_norms
    query = key = None
    if names is not None:
        query, key = (_vector(weights, name, config.head_dim).tolist() for name in names)
    return config.layer_rotary[index], config.layer_windows[index], query, key
