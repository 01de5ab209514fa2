"""The decoder: one class for every supported family, driven by its configuration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import embedding

from spectrie.model.config import ModelConfig
from spectrie.model.linear import LEAST_ROWS, Linear
from spectrie.model.operators import Operators
from spectrie.model.plan import PlanArrays

__all__ = ["Decoder", "Layer"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer: products, and norm weights float32 [hidden]."""

    attention_norm: torch.Tensor
    qkv: Linear
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(slots=True)
class _Block:
    """Some consecutive rows of the batch on their way through the layers."""

    first_row: int
    num_rows: int
    residual: torch.Tensor
    delta: torch.Tensor | None = None


class Decoder:
    """A decoder over a paged cache.

    The residual stream is float32 whatever the model's dtype: adding in bfloat16 would cost accuracy
    and save nothing, because the norm that follows reads the stream once either way.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        embedding_table: torch.Tensor,
        layers: tuple[Layer, ...],
        final_norm: torch.Tensor,
        head: Linear,
        operators: Operators,
    ) -> None:
        """Puts the parts together.

        Args:
            config: The model.
            embedding_table: [vocabulary, hidden], any floating dtype.
            layers: One entry per layer.
            final_norm: float32 [hidden].
            head: Product from hidden to vocabulary.
            operators: The rest, with the key-value cache.
        """
        self.config = config
        self._embedding = embedding_table
        self._layers = layers
        self._final_norm = final_norm
        self._head = head
        self._operators = operators

    @torch.inference_mode()
    def forward(self, plan: PlanArrays) -> torch.Tensor:
        """Logits of the plan's sample rows: float32 [S, vocabulary], contiguous.

        Raises:
            ValueError: The plan contradicts itself or leaves the cache or the vocabulary.
        """
        operators = self._operators
        operators.begin(plan)
        device = self._embedding.device
        tokens = torch.as_tensor(plan.row_token).to(device)
        num_rows = tokens.shape[0]
        if num_rows == 0:
            return torch.empty(0, self.config.vocabulary_size, device=device)
        # More rows than asked: the last block may hold fewer than products take.
        residual = torch.zeros(num_rows + LEAST_ROWS, self.config.hidden_size, device=device)
        residual[:num_rows] = embedding(tokens, self._embedding).float()
        blocks = []
        limit = operators.block_rows or num_rows
        for first_row in range(0, num_rows, limit):
            count = min(limit, num_rows - first_row)
            rows = residual[first_row : first_row + max(count, LEAST_ROWS)]
            blocks.append(_Block(first_row, count, rows))
        for index, layer in enumerate(self._layers):
            for block in blocks:
                self._layer(index, layer, block)
        return self._logits(plan, blocks)

    def set_threads(self, threads: int) -> None:
        """Shares large operators among this many threads."""
        self._operators.set_threads(threads)

    def _layer(self, index: int, layer: Layer, block: _Block) -> None:
        operators = self._operators
        x = operators.add_norm(block.residual, block.delta, layer.attention_norm)
        attended = operators.attend(index, layer.qkv(x), block.first_row, block.num_rows)
        delta = layer.output(attended)
        x = operators.add_norm(block.residual, delta, layer.mlp_norm)
        block.delta = layer.down(operators.gate(layer.gate_up(x)))

    def _logits(self, plan: PlanArrays, blocks: list[_Block]) -> torch.Tensor:
        sample_rows = torch.as_tensor(plan.sample_rows).long()
        parts = []
        for block in blocks:
            first, end = block.first_row, block.first_row + block.num_rows
            wanted = sample_rows[(sample_rows >= first) & (sample_rows < end)] - first
            if not len(wanted):
                continue
            x = self._operators.add_norm(block.residual, block.delta, self._final_norm)
            if len(wanted) != block.num_rows:
                # Products take at least `LEAST_ROWS` rows; which ones fill up does not matter.
                missing = max(LEAST_ROWS - len(wanted), 0)
                x = x[torch.cat([wanted, wanted[:1].expand(missing)]).to(x.device)]
            parts.append(self._products(x)[: len(wanted)].float())
        if not parts:
            return torch.empty(0, self.config.vocabulary_size)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _products(self, x: torch.Tensor) -> torch.Tensor:
        limit = self._operators.head_rows or len(x)
        if len(x) <= limit:
            return self._head(x)
        parts = []
        for first in range(0, len(x), limit):
            # A short last part takes its neighbours along.
            start = min(first, len(x) - LEAST_ROWS)
            parts.append(self._head(x[start : first + limit])[first - start :])
        return torch.cat(parts)
