"""Heads that continue from their own guesses through one decoder layer, as they are asked level by level.

In training every level learns on the guesses of the level before (training-time test, EAGLE-3): a row of a later
level attends to the true entries up to where its draft begins, then to the guessed ones of its own chain.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from spectrie.training.batches import Batch
from spectrie.training.kinds.attention import Attention
from spectrie.training.kinds.target_head import Layer, TargetHead

__all__ = ["ChainHead"]


class ChainHead(TargetHead, Layer):
    """Such a head. Keys and values of a row are those of its own position; row 0 has no entry."""

    post_attention_layernorm: nn.Parameter

    def add_layer(self, inputs: int) -> None:
        """Adds the layer's products; its attention takes rows of `inputs` numbers."""
        self.set_products(self.layer_products(inputs))

    @abstractmethod
    def vectors(self, embedded: torch.Tensor) -> torch.Tensor:
        """What it takes of token vectors, [N, hidden]."""

    @abstractmethod
    def first_state(self, features: torch.Tensor) -> torch.Tensor:
        """The state of level 0 from the target's features: [N, width] to [N, hidden]."""

    @abstractmethod
    def joined(
        self, vectors: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The residual stream before the layer, [N, hidden], and what its attention takes, [N, inputs]."""

    @abstractmethod
    def handed_on(self, hidden: torch.Tensor) -> torch.Tensor:
        """The state of a later level, from what the layer left at the row's parent."""

    @abstractmethod
    def named_by(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the LM head takes, from what the layer left."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits over the draft vocabulary: [N, draft vocabulary]."""
        return self.guess(self.named_by(hidden))

    def losses(self, batch: Batch) -> list[torch.Tensor]:
        weighed = self.weighed(batch)
        return [
            weighed.loss(level, weighed.guess(states))
            for level, states in zip(batch.levels, self.named_states(batch), strict=True)
        ]

    def judged(self, batch: Batch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        losses, guesses = [], []
        for level, states in zip(batch.levels, self.named_states(batch), strict=True):
            logits = self.guess(states)
            losses.append(self.loss(level, logits))
            if self.low_rank is not None:
                logits = self.low_rank.kept(states, logits)
            guesses.append(self.vocabulary[logits.argmax(1)])
        return losses, guesses

    def named_states(self, batch: Batch) -> Iterator[torch.Tensor]:
        return map(self.named_by, self.hidden_states(batch))

    def layer_tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        """The layer under the names that a decoder layer's have behind `prefix`."""
        norm = self.post_attention_layernorm
        return self.product_tensors(prefix) | {f"{prefix}post_attention_layernorm.weight": norm}

    def hidden_states(self, batch: Batch) -> Iterator[torch.Tensor]:
        """Yields what the layer leaves at the rows of each level, [N, hidden]."""
        texts, length = batch.tokens.shape
        positions = torch.arange(length).repeat(texts)
        vectors = self.vectors(self._embedding[batch.tokens.flatten()])
        streams, whole = self.joined(vectors, self.first_state(batch.features.flatten(0, 1)))
        attention = Attention(self._config, texts, length)
        every = torch.arange(texts * length)
        attention.add(self.turned(self.k_proj(whole), positions), self.v_proj(whole), every)
        hidden = streams
        for number, level in enumerate(batch.levels):
            rows = level.rows
            if number == 0:
                stream, inputs = streams[rows], whole[rows]
            else:
                state = self.handed_on(hidden[level.parents])
                stream, inputs = self.joined(vectors[rows], state)
                key = self.turned(self.k_proj(inputs), positions[rows])
                attention.add(key, self.v_proj(inputs), rows)
            query = self.turned(self.q_proj(inputs), positions[rows])
            hidden = stream + self.o_proj(attention.attend(query, rows))
            normed = self.normed(hidden, self.post_attention_layernorm)
            gated = functional.silu(self.gate_proj(normed)) * self.up_proj(normed)
            hidden = hidden + self.down_proj(gated)
            yield hidden
