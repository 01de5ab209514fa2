"""The decoder: one class for every supported family, driven by its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import embedding

from spectrie.model.config import ModelConfig
from spectrie.model.linear import LEAST_ROWS, Linear
from spectrie.model.operators import TOP_K, Operators
from spectrie.model.plan import PlanArrays, StepResult

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
    def forward(self, plan: PlanArrays) -> StepResult:
        """Logits of the plan's sample rows and the likeliest tokens of its top rows.

        Raises:
            ValueError: The plan contradicts itself or leaves the cache or the vocabulary.
        """
        operators = self._operators
        operators.begin(plan)
        device = self._embedding.device
        tokens = torch.as_tensor(plan.row_token).to(device)
        num_rows = tokens.shape[0]
        if num_rows == 0:
            return self._read(plan, [])
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
        return self._read(plan, blocks)

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

    def _read(self, plan: PlanArrays, blocks: list[_Block]) -> StepResult:
        """Takes the rows that the plan asks for through the head, in parts of its own size."""
        device = self._embedding.device
        with_top = len(plan.top_rows) > 0
        wanted = torch.as_tensor(plan.top_rows if with_top else plan.sample_rows).long()
        # Of each wanted row, unless all are.
        is_sample = None
        if len(wanted) > len(plan.sample_rows):
            is_sample = torch.isin(wanted, torch.as_tensor(plan.sample_rows).long())
        logits = [torch.empty(0, self.config.vocabulary_size, device=device)]
        ids = [torch.empty(0, TOP_K, dtype=torch.int32, device=device)]
        probabilities = [torch.empty(0, TOP_K, device=device)]
        done = 0
        for block in blocks:
            for part in self._products(block, wanted):
                if with_top:
                    part_ids, part_probabilities = self._operators.top_k(part)
                    ids.append(part_ids)
                    probabilities.append(part_probabilities)
                if is_sample is None:
                    logits.append(part)
                elif (sampled := is_sample[done : done + len(part)]).any():
                    logits.append(part[sampled.to(device)])
                done += len(part)
        return StepResult(_joined(logits), _joined(ids), _joined(probabilities))

    def _products(self, block: _Block, wanted: torch.Tensor) -> Iterator[torch.Tensor]:
        """float32 logits of the wanted rows of a block, in order, some rows at a time."""
        first, end = block.first_row, block.first_row + block.num_rows
        rows = wanted[(wanted >= first) & (wanted < end)] - first
        if not len(rows):
            return
        x = self._operators.add_norm(block.residual, block.delta, self._final_norm)
        if len(rows) != block.num_rows:
            # Products take at least `LEAST_ROWS` rows; which ones fill up does not matter.
            missing = max(LEAST_ROWS - len(rows), 0)
            x = x[torch.cat([rows, rows[:1].expand(missing)]).to(x.device)]
        limit = self._operators.head_rows or len(x)
        for first in range(0, len(rows), limit):
            # A short last part takes its neighbours along.
            start = max(min(first, len(x) - LEAST_ROWS), 0)
            part = self._head(x[start : first + limit])
            yield part[first - start : len(rows) - start].float()


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """All parts, without a copy where only one holds rows."""
    parts = [part for part in parts if len(part)] or parts[:1]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
