"""The decoder in torch, for a GPU and as the reference: one class for every supported family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.exchange import Exchange, IntoStream
from spectrie.model.decoder.layout import (
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    DenseLayout,
    MixtureLayout,
    ProductLayout,
    layer_layout,
)
from spectrie.model.decoder.linear import (
    ExactLinear,
    ExactSegments,
    ExactSums,
    ExpertLinear,
    Linear,
    OpenProduct,
    Product,
    RankSums,
    WideLinear,
)
from spectrie.model.decoder.mlp import Dense, Mixture
from spectrie.model.decoder.sizing import pieces
from spectrie.model.files.weights import Weights
from spectrie.model.operators import TOP_K, Operators, Result
from spectrie.model.parallel.partition import Partition
from spectrie.model.parallel.split import Split
from spectrie.model.plan import PlanArrays, StepResult
from spectrie_kernels import ExpertWeight, LinearWeight, SumOrder

__all__ = ["HEAD_RESULT", "Decoder", "DecoderWeights", "Follower"]

HEAD_RESULT = "head"
"""What logits are called in the scratch."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer: products, and norm weights float32 [hidden]."""

    attention_norm: torch.Tensor
    qkv: OpenProduct
    output: IntoStream
    mlp_norm: torch.Tensor
    mlp: Dense | Mixture


class DecoderWeights:
    """A checkpoint's tensors on a device, in the order of use.

    Attributes:
        layers: One entry per layer.
        head_norms: Per layer, weights of the query and key norms, float32 [head_dim] each; or None.
        embedding: [vocabulary, hidden].
        final_norm: float32 [hidden].
        head: Product from hidden to vocabulary, float32.
        head_rows: Its matrix, [vocabulary, hidden].
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        dtype: torch.dtype,
        device: torch.device,
        split: Split | None = None,
        *,
        exact: bool = False,
    ) -> None:
        """Copies every tensor, or one rank's rows of it, to the device.

        Args:
            config: The whole model.
            weights: Its checkpoint.
            dtype: Number format of the products.
            device: Where the tensors go.
            split: One rank's part; None for the whole.
            exact: Whether each product adds in one order, whatever the rows and however many ranks share
                it. Those of a mixture's experts always do.

        Raises:
            ModelError: A tensor is missing or has another shape.
        """
        self._weights = weights
        self._dtype = dtype
        self._device = device
        self._split = split
        self._exact = exact
        self.layers = tuple(self._layer(config, index) for index in range(config.num_layers))
        self.head_norms = tuple(
            self._head_norms(config, index) for index in range(config.num_layers)
        )
        shape = (config.vocabulary_size, config.hidden_size)
        self.embedding = weights.tensor(EMBEDDING, shape).to(device, dtype)
        head = self.embedding
        if not config.tied_head:
            head = weights.tensor(HEAD, shape).to(device, dtype)
        self.final_norm = self._norm(FINAL_NORM, config.hidden_size)
        part = head if split is None else head[split.vocabulary.columns]
        self.head_rows = part
        self.head = self._head(part, config.vocabulary_size)

    def _norm(self, name: str, width: int) -> torch.Tensor:
        return self._weights.tensor(name, (width,)).float().clone().to(self._device)

    def _stacked(
        self, layout: ProductLayout, dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns the matrix and the bias of a product."""

        def stacked(suffix: str, *shape: int) -> torch.Tensor:
            parts = [
                self._weights.tensor(f"{part.name}.{suffix}", (part.rows.total, *shape))[
                    part.rows.columns
                ]
                for part in layout.parts
            ]
            if shape and layout.terms is not None:
                parts = [part[:, layout.terms.columns] for part in parts]
            return torch.cat([part.to(self._device, dtype or self._dtype) for part in parts])

        bias = stacked("bias") if layout.bias else None
        return stacked("weight", layout.in_features), bias

    def _head(self, weight: torch.Tensor, vocabulary: int) -> Product:
        """Returns the product from hidden to all of a vocabulary or a part, which gives float32."""
        if not self._exact:
            return WideLinear(HEAD_RESULT, weight)
        weights = LinearWeight(weight, SumOrder.of(vocabulary, weight.shape[1]))
        return ExactLinear(HEAD_RESULT, weights, torch.float32)

    def _linear(self, name: str, layout: ProductLayout) -> OpenProduct:
        """Returns a projection to heads or to the gate, whose readers finish it."""
        weight, bias = self._stacked(layout)
        if not self._exact:
            return Linear(name, weight, bias)
        order = SumOrder.of(layout.out_features, layout.in_features)
        return ExactSegments(name, LinearWeight(weight, order, bias), self._dtype)

    def _into_stream(self, name: str, layout: ProductLayout) -> IntoStream:
        """Returns an output or down projection."""
        weight, bias = self._stacked(layout)
        if not self._exact:
            return Linear(name, weight, bias)
        order = SumOrder.of(layout.out_features, layout.in_features, row_parallel=True)
        if self._split is None or self._split.ranks == 1:
            return ExactSums(name, LinearWeight(weight, order, bias))
        if layout.terms is None:
            # Outputs of this rank, not rounded before the stream takes them.
            return ExactLinear(name, LinearWeight(weight, order, bias), torch.float32)
        own = LinearWeight(weight, order.shard(self._split.ranks))
        return RankSums(name, own, bias)

    def _layer(self, config: ModelConfig, index: int) -> Layer:
        layout = layer_layout(config, index, self._split, shares_terms=self._exact)
        return Layer(
            attention_norm=self._norm(layout.attention_norm, config.hidden_size),
            qkv=self._linear("qkv", layout.qkv),
            output=self._into_stream("output", layout.output),
            mlp_norm=self._norm(layout.mlp_norm, config.hidden_size),
            mlp=self._mlp(layout.mlp),
        )

    def _mlp(self, layout: DenseLayout | MixtureLayout) -> Dense | Mixture:
        if isinstance(layout, DenseLayout):
            return Dense(
                self._linear("gate_up", layout.gate_up), self._into_stream("down", layout.down)
            )
        router, _ = self._stacked(layout.router, torch.float32)
        return Mixture(
            router=ExactSegments(
                "scores", LinearWeight(router, SumOrder.of(*router.shape)), torch.float32
            ),
            gate_up=self._experts("gate_up", layout, [one.gate_up for one in layout.experts]),
            down=self._experts("down", layout, [one.down for one in layout.experts]),
            num_chosen=layout.num_chosen,
            normalised=layout.normalised,
        )

    def _experts(
        self, name: str, layout: MixtureLayout, products: list[ProductLayout]
    ) -> ExpertLinear:
        """Returns the products of all experts that are called `name`."""
        first, chosen = products[0], layout.num_chosen
        own = sum(part.rows.count for part in first.parts)
        # One at a time: together they are most of the model.
        shape = (len(products), own, first.in_features)
        values = torch.empty(shape, dtype=self._dtype, device=self._device)
        for matrix, product in zip(values, products, strict=True):
            matrix.copy_(self._stacked(product)[0])
        whole = sum(part.rows.total for part in first.parts)
        order = ExpertWeight.order_of(whole, first.in_features, chosen)
        return ExpertLinear(name, ExpertWeight(values, order), chosen)

    def _head_norms(
        self, config: ModelConfig, index: int
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        names = layer_layout(config, index).head_norms
        if names is None:
            return None
        return self._norm(names[0], config.head_dim), self._norm(names[1], config.head_dim)


class Follower(Protocol):
    """Reads what the layers of a decoder give, while they are computed."""

    def tap(self, layer: int, stream: torch.Tensor, /) -> None:
        """Called behind each layer with its output, float32 [rows, hidden], which is changed afterwards."""

    def finish(self, normed: torch.Tensor, /) -> None:
        """Called behind the last norm with its output, [rows, hidden]."""


class Decoder:
    """A decoder over a paged cache.

    The residual stream is always float32: adding in bfloat16 would cost accuracy and save nothing,
    because the norm that follows reads the stream once either way.
    """

    def __init__(
        self,
        weights: DecoderWeights,
        operators: Operators,
        partition: Partition | None = None,
    ) -> None:
        """Assembles a decoder.

        Args:
            weights: All weights, or one rank's.
            operators: The other operators and the key-value cache, for all heads or one rank's.
            partition: Parts of all ranks; None for a single rank.
        """
        self._weights = weights
        self._operators = operators
        self._exchange = Exchange(partition)
        self._follower: Follower | None = None

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return int(self._weights.embedding.shape[1])

    def follow(self, follower: Follower | None) -> None:
        """Has a follower read what layers give from now on; None ends that."""
        self._follower = follower

    def set_threads(self, threads: int) -> None:
        """Sets the number of CPU threads, process-wide."""
        torch.set_num_threads(threads)

    def forward(self, plan: PlanArrays) -> StepResult:
        """Computes the logits of the plan's sample rows and the likeliest tokens of its top rows.

        Raises:
            ValueError: The plan is inconsistent, or exceeds the cache or the vocabulary.
        """
        return self.begin(plan)()

    @torch.inference_mode()
    def begin(self, plan: PlanArrays) -> Callable[[], StepResult]:
        """Launches `forward`; returns what waits for the device and reads the result.

        Raises:
            ValueError: As `forward`.
        """
        operators, device = self._operators, self._weights.embedding.device
        operators.begin(plan)
        samples, tops = len(plan.sample_rows), len(plan.top_rows)
        # Where they are not the sample rows, there are rows of prompts among them.
        with_prompts = tops > samples
        read = [plan.sample_rows, plan.top_rows] if with_prompts else [plan.sample_rows]
        # Copied before the layers: a copy waits for the device, which there may wait for other ranks.
        rows = torch.as_tensor(np.concatenate(read), dtype=torch.int32).to(device)
        x = self.layers()
        logits = self.head(x, rows[:samples])
        ids = torch.empty(tops, TOP_K, dtype=torch.int32, device=device)
        probabilities = torch.empty(tops, TOP_K, device=device)
        if tops and not with_prompts:
            operators.top_k(logits, ids, probabilities)
        for piece in pieces(tops if with_prompts else 0):
            of_piece = self.head(x, rows[samples:][piece])
            operators.top_k(of_piece, ids[piece], probabilities[piece])
            del of_piece
        return lambda: StepResult(logits, ids.cpu().numpy(), probabilities.cpu().numpy())

    def layers(self) -> torch.Tensor:
        """Computes the rows that the operators began with: [rows, hidden], as the head takes it."""
        weights, operators, exchange = self._weights, self._operators, self._exchange
        scratch, follower = operators.scratch, self._follower
        residual = operators.embed(weights.embedding)
        delta: Result | None = None
        for index, layer in enumerate(weights.layers):
            x = operators.add_norm(residual, delta, layer.attention_norm)
            if follower is not None and index:
                # The layer's output is in the stream only now.
                follower.tap(index - 1, residual)
            attended = operators.attend(index, layer.qkv(x, scratch))
            delta = exchange.into_stream(layer.output, attended, "attended", scratch)
            x = operators.add_norm(residual, delta, layer.mlp_norm)
            delta = layer.mlp(x, operators, exchange)
        normed = operators.add_norm(residual, delta, weights.final_norm)
        if follower is not None:
            follower.tap(len(weights.layers) - 1, residual)
            follower.finish(normed)
        return normed

    def head(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Returns the logits of some rows of `layers`: float32 [chosen, vocabulary].

        Args:
            x: [rows, hidden].
            rows: int32 [chosen], on the device.
        """
        operators = self._operators
        part = self._weights.head(operators.gather(x, rows), operators.scratch)
        return self._exchange.whole(part, "vocabulary")
