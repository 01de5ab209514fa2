"""An EAGLE-2 head as a torch module: `fc` joins the token's vector and the target's last normed state.

Layout and arithmetic as in SafeAILab's EAGLE and SGLang: no norm stands before the layer's attention or behind
the layer; what it leaves names tokens and is the next level's state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from spectrie.training.kinds.chain import ChainHead
from spectrie.training.kinds.target_head import PRODUCTS, linear, norm_weight
from spectrie.training.target import Target

__all__ = ["Eagle2"]


class Eagle2(ChainHead):
    """The head."""

    def __init__(self, target: Target, vocabulary: torch.Tensor, *, warm: bool = True) -> None:
        """Builds a head.

        Args:
            target: The model it drafts for; embedding and LM head are its own and stay as they are.
            vocabulary: Token ids it can name, ascending; all of them in the published form.
            warm: Whether to start from the target's last layer; else from random numbers.
        """
        super().__init__(target, (), vocabulary)
        hidden = self._config.hidden_size
        self.fc = linear(2 * hidden, hidden, bias=True)
        self.post_attention_layernorm = norm_weight(hidden)
        self.add_layer(hidden)
        if warm:
            self._start_from(target)

    @torch.no_grad()
    def _start_from(self, target: Target) -> None:
        """Copies the target's last layer; the state passes through `fc` unchanged."""
        hidden = self._config.hidden_size
        self.fc.weight.zero_()
        self.fc.weight[:, hidden:] = torch.eye(hidden)
        layer = target.layer(self._config.num_layers - 1)
        self.copy_products(layer, PRODUCTS)
        self.post_attention_layernorm.copy_(layer["post_attention_layernorm.weight"])

    def copied(self) -> list[nn.Parameter]:
        """The parameters that a warm start took from the target."""
        fresh = {id(parameter) for parameter in self.fc.parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in fresh]

    def vectors(self, embedded: torch.Tensor) -> torch.Tensor:
        return embedded

    def first_state(self, features: torch.Tensor) -> torch.Tensor:
        return features

    def joined(
        self, vectors: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        stream = self.fc(torch.cat([vectors, state], dim=1))
        return stream, stream

    def handed_on(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden

    def named_by(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden

    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        tensors = {
            "fc.weight": self.fc.weight,
            "fc.bias": self.fc.bias,
            **self.layer_tensors("layers.0."),
            **(self.cut() if self.is_cut else self.factors()),
        }
        values = self.fields(architectures=["LlamaForCausalLMEagle"], bias=True)
        if self.is_cut:
            values["draft_vocab_size"] = len(self.vocabulary)
        return values, tensors
