"""The interface of a set of operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from spectrie import _core
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.plan import PlanArrays
from spectrie.model.step.scratch import Scratch
from spectrie_kernels import PartialSums

__all__ = ["TOP_K", "OperatorSettings", "Operators", "Result"]

Result = torch.Tensor | PartialSums
"""What a product gives: [rows, features], or sums of that which whoever reads it finishes."""

TOP_K = _core.CPU_TOP_K
"""Tokens per row returned by `Operators.top_k`."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Settings of a set of operators.

    Attributes:
        config: The model, with this rank's heads.
        dtype: Number format of activations and of the key-value cache.
        device: Device of all tensors.
        num_pages: Pages of the key-value cache.
        page_size: Slots of a page.
        max_context: Upper limit of positions, exclusive.
        model_kv_heads: Key-value heads of the whole model, before ranks share them.
        head_norms: Per layer, weights of the query and key norms, float32 [head_dim] each; or None.
        first_key: The first position with keys: 0, but for drafters of which the first token has none.
    """

    config: ModelConfig
    dtype: torch.dtype
    device: torch.device
    num_pages: int
    page_size: int
    max_context: int
    model_kv_heads: int
    head_norms: tuple[tuple[torch.Tensor, torch.Tensor] | None, ...]
    first_key: int = 0


class Operators(ABC):
    """Everything in a decoder except its matrix products; owns the key-value cache.

    Tensors are contiguous; `rows` are those of the batch.

    Attributes:
        scratch: Where results go, those of the products too.
    """

    scratch: Scratch

    @abstractmethod
    def begin(self, plan: PlanArrays) -> None:
        """Accepts the plan of the next forward and performs its cache moves.

        Raises:
            ValueError: The plan is inconsistent or exceeds the cache; nothing was moved.
        """

    @abstractmethod
    def embed(self, table: torch.Tensor) -> torch.Tensor:
        """Returns the rows of `table` [vocabulary, hidden] of the batch's tokens: float32 [rows,
        hidden], to which `add_norm` adds."""

    @abstractmethod
    def add_norm(
        self, residual: torch.Tensor, delta: Result | None, weight: torch.Tensor
    ) -> torch.Tensor:
        """Adds `delta` to `residual` in place and returns the root-mean-square norm of the sum.

        Args:
            residual: float32 [rows, hidden].
            delta: [rows, hidden] in the model's dtype or float32, or sums of [parts, rows, hidden]; None
                adds nothing.
            weight: float32 [hidden].
        """

    @abstractmethod
    def attend(self, layer: int, qkv: Result) -> torch.Tensor:
        """Writes the keys and values of the rows, then computes their attention.

        Args:
            layer: Index of the layer.
            qkv: [rows, (heads + 2 kv_heads) * head_dim], before rotation, or sums of that.

        Returns:
            [rows, heads * head_dim].
        """

    @abstractmethod
    def gate(self, gate_up: Result) -> torch.Tensor:
        """Returns `silu(gate) * up` of [rows, 2 * intermediate], gate first, or of sums of that."""

    @abstractmethod
    def choose(
        self, scores: Result, num_chosen: int, normalised: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Chooses the experts of the highest scores of each row, of equal ones the lowest.

        Args:
            scores: float32 [rows, experts], or sums of that.
            num_chosen: Experts of a row.
            normalised: Whether a row's shares are scaled to a sum of 1.

        Returns:
            Experts, int32 [rows, num_chosen], the highest score first, and their shares of the softmax,
            float32. A row that stands for none chooses -1.
        """

    @abstractmethod
    def add_experts(
        self, results: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        """Returns the sum of each row's results times their shares: float32 [rows, features].

        Args:
            results: [rows * num_chosen, features].
            ids: As `choose` gives them; results of negative ones count nothing.
            shares: As `choose` gives them.
        """

    @abstractmethod
    def gather(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Returns rows of `x` [rows, hidden], given int32 [chosen] on its device."""

    @abstractmethod
    def top_k(self, logits: torch.Tensor, ids: torch.Tensor, probabilities: torch.Tensor) -> None:
        """Writes the likeliest tokens of each row, likeliest first, and their probabilities.

        Probabilities are those of the plain softmax. NaN is skipped. Ids are -1 and probabilities 0
        for a row without a finite maximum, or without further tokens above minus infinity.

        Args:
            logits: float32 [rows, vocabulary].
            ids: int32 [rows, TOP_K], written.
            probabilities: float32 [rows, TOP_K], written.
        """
