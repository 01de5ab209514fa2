"""The decoder in torch, for a GPU and as the reference: one class for every supported family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

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
from spectrie.model.decoder.linear import ExactLinear, ExactSums, Linear, Product
from spectrie.model.decoder.mlp import Dense, Mixture
from spectrie.model.files.weights import Weights
from spectrie.model.operators import TOP_K, Delta, Operators
from spectrie.model.parallel import Partition, Share, Split
from spectrie.model.plan import PlanArrays, StepResult
from spectrie_kernels import LinearWeight, PartialSums, SumOrder

__all__ = ["Decoder", "DecoderWeights"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer: products, and norm weights float32 [hidden]."""

    attention_norm: torch.Tensor
    qkv: Product
    output: Callable[[torch.Tensor], Delta]
    mlp_norm: torch.Tensor
    mlp: Dense[Delta] | Mixture


class DecoderWeights:
    """A checkpoint's tensors on a device, in the order of use.

    Attributes:
        layers: One entry per layer.
        head_norms: Per layer, weights of the query and key norms, float32 [head_dim] each; or None.
        embedding: [vocabulary, hidden].
        final_norm: float32 [hidden].
        head: Product from hidden to vocabulary.
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
            exact: Whether each product adds in one order, whatever the rows; only of a whole model
                without a mixture of experts.

        Raises:
            ValueError: `exact` of a part, or of a mixture.
            ModelError: A tensor is missing or has another shape.
        """
        self._weights = weights
        self._dtype = dtype
        self._device = device
        self._split = split
        self._exact = exact
        if exact and (split is not None or config.mixture is not None):
            raise ValueError("exact products of one rank's part, or of a mixture of experts")
        self.layers = tuple(self._layer(config, index) for index in range(config.num_layers))
        self.head_norms = tuple(
            self._head_norms(config, index) for index in range(config.num_layers)
        )
        shape = (config.vocabulary_size, config.hidden_size)
        self.embedding = weights.take(EMBEDDING, shape).to(device, dtype)
        head = self.embedding
        if not config.tied_head:
            head = weights.take(HEAD, shape).to(device, dtype)
        self.final_norm = self._norm(FINAL_NORM, config.hidden_size)
        head = head if split is None else head[split.vocabulary.columns]
        self.head = self._product(head, None, torch.float32)

    def _norm(self, name: str, width: int) -> torch.Tensor:
        return self._weights.take(name, (width,)).float().clone().to(self._device)

    def _stacked(
        self, layout: ProductLayout, dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns the matrix and the bias of a product."""

        def stacked(suffix: str, *shape: int) -> torch.Tensor:
            parts = [
                self._weights.take(f"{part.name}.{suffix}", (part.rows.total, *shape))[
                    part.rows.columns
                ]
                for part in layout.parts
            ]
            return torch.cat([part.to(self._device, dtype or self._dtype) for part in parts])

        bias = stacked("bias") if layout.bias else None
        return stacked("weight", layout.in_features), bias

    def _product(
        self, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype
    ) -> Product:
        """Returns a product; exact ones give `dtype`, others the weight's."""
        if not self._exact:
            return Linear(weight, bias)
        return ExactLinear(LinearWeight(weight, SumOrder.of(*weight.shape), bias), dtype)

    def _linear(self, layout: ProductLayout) -> Product:
        return self._product(*self._stacked(layout), self._dtype)

    def _row_parallel(self, layout: ProductLayout) -> Callable[[torch.Tensor], Delta]:
        """Returns an output or down projection, which the residual stream takes."""
        weight, bias = self._stacked(layout)
        if not self._exact:
            return Linear(weight, bias)
        return ExactSums(LinearWeight(weight, SumOrder.of(*weight.shape, row_parallel=True), bias))

    def _layer(self, config: ModelConfig, index: int) -> Layer:
        layout = layer_layout(config, index, self._split)
        return Layer(
            attention_norm=self._norm(layout.attention_norm, config.hidden_size),
            qkv=self._linear(layout.qkv),
            output=self._row_parallel(layout.output),
            mlp_norm=self._norm(layout.mlp_norm, config.hidden_size),
            mlp=self._mlp(layout.mlp),
        )

    def _mlp(self, layout: DenseLayout | MixtureLayout) -> Dense[Delta] | Mixture:
        if isinstance(layout, DenseLayout):
            return Dense(self._linear(layout.gate_up), self._row_parallel(layout.down))
        return Mixture(
            router=Linear(*self._stacked(layout.router, torch.float32)),
            experts=tuple(self._expert(expert) for expert in layout.experts),
            num_chosen=layout.num_chosen,
            normalised=layout.normalised,
        )

    def _expert(self, layout: DenseLayout) -> Dense[torch.Tensor]:
        return Dense(self._linear(layout.gate_up), self._linear(layout.down))

    def _head_norms(
        self, config: ModelConfig, index: int
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        names = layer_layout(config, index).head_norms
        if names is None:
            return None
        return self._norm(names[0], config.head_dim), self._norm(names[1], config.head_dim)


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
        self._partition = partition

    def set_threads(self, threads: int) -> None:
        """Sets the number of CPU threads, process-wide."""
        torch.set_num_threads(threads)

    @torch.inference_mode()
    def forward(self, plan: PlanArrays) -> StepResult:
        """Computes the logits of the plan's sample rows and the likeliest tokens of its top rows.

        Raises:
            ValueError: The plan is inconsistent, or exceeds the cache or the vocabulary.
        """
        weights, operators, whole = self._weights, self._operators, self._whole
        operators.begin(plan)
        tokens = torch.as_tensor(plan.row_token).to(weights.embedding.device)
        residual = functional.embedding(tokens, weights.embedding).float()
        delta: Delta | None = None
        for index, layer in enumerate(weights.layers):
            x = operators.add_norm(residual, delta, layer.attention_norm)
            attended = whole(operators.attend(index, layer.qkv(x)), "attended")
            delta = self._whole_delta(layer.output(attended))
            x = operators.add_norm(residual, delta, layer.mlp_norm)
            delta = self._whole_delta(layer.mlp(x, operators, whole))
        return self._read(plan, operators.add_norm(residual, delta, weights.final_norm))

    def _whole(self, part: torch.Tensor, what: str) -> torch.Tensor:
        """Returns all columns of a product of which this rank may hold some; `what` is its name in
        `Partition`."""
        if self._partition is None:
            return part
        shares: list[Share] = getattr(self._partition, what)
        return self._partition.gathered(part, shares)

    def _whole_delta(self, part: Delta) -> Delta:
        """Like `_whole`, of what the residual stream takes; sums are always of whole weights."""
        return part if isinstance(part, PartialSums) else self._whole(part, "hidden")

    def _read(self, plan: PlanArrays, x: torch.Tensor) -> StepResult:
        """Computes the logits of the rows that the plan requests."""
        with_top = len(plan.top_rows) > 0
        sample = torch.as_tensor(plan.sample_rows).long()
        rows = torch.as_tensor(plan.top_rows).long() if with_top else sample
        logits = self._whole(self._weights.head(x[rows.to(x.device)]), "vocabulary").float()
        ids = torch.empty(0, TOP_K, dtype=torch.int32, device=x.device)
        probabilities = torch.empty(0, TOP_K, device=x.device)
        if with_top:
            ids, probabilities = self._operators.top_k(logits)
        if len(rows) > len(sample):
            logits = logits[torch.isin(rows, sample).to(x.device)]
        return StepResult(logits, ids.cpu().numpy(), probabilities.cpu().numpy())
