"""An EAGLE-3 head as a torch module: one layer over the token's embedding and the target's features.

Layout and arithmetic as in SafeAILab's EAGLE and SpecForge: the layer takes `[embedding, feature]`, both
normalised; the residual is the feature before its norm; what a level hands on is the hidden state before
the last norm. `fc` joins the tapped layers and is only applied to the target's own features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from spectrie.training.kinds.chain import ChainHead
from spectrie.training.kinds.target_head import linear, norm_weight
from spectrie.training.target import Target

__all__ = ["Eagle3", "default_taps"]


def default_taps(num_layers: int) -> tuple[int, ...]:
    """Layers whose outputs are joined, as the published heads take them; fewer in a shallow model."""
    return tuple(sorted({max(tap, 0) for tap in (1, num_layers // 2 - 1, num_layers - 4)}))


class Eagle3(ChainHead):
    """The head."""

    def __init__(
        self, target: Target, taps: Sequence[int], vocabulary: torch.Tensor, *, warm: bool = True
    ) -> None:
        """Builds a head.

        Args:
            target: The model it drafts for; embedding and LM head are its own and stay as they are.
            taps: Layers, ascending.
            vocabulary: Token ids it can name, ascending.
            warm: Whether to start from the target's last layer; else from random numbers.
        """
        super().__init__(target, taps, vocabulary)
        hidden = self._config.hidden_size
        self.fc = linear(len(taps) * hidden, hidden)
        self.input_layernorm, self.hidden_norm = norm_weight(hidden), norm_weight(hidden)
        self.post_attention_layernorm, self.norm = norm_weight(hidden), norm_weight(hidden)
        self.add_layer(2 * hidden)
        if warm:
            self.start_from(target, self._config.num_layers - 1)

    @torch.no_grad()
    def start_from(self, target: Target, number: int) -> None:
        """Copies a layer of the target and its last norm; the deepest tap passes through `fc` unchanged."""
        hidden = self._config.hidden_size
        layer = target.layer(number)
        self.fc.weight.zero_()
        self.fc.weight[:, -hidden:] = torch.eye(hidden)
        for part in ("q_proj", "k_proj", "v_proj"):
            getattr(self, part).weight[:, hidden:] = layer[f"self_attn.{part}.weight"]
        self.copy_products(layer, ("o_proj", "gate_proj", "up_proj", "down_proj"))
        self.hidden_norm.copy_(layer["input_layernorm.weight"])
        self.post_attention_layernorm.copy_(layer["post_attention_layernorm.weight"])
        self.norm.copy_(target.final_norm)

    def copied(self) -> list[nn.Parameter]:
        """The parameters that a warm start took from the target."""
        whole = (self.o_proj, self.gate_proj, self.up_proj, self.down_proj, self.fc)
        norms = (self.hidden_norm, self.post_attention_layernorm, self.norm)
        return [parameter for product in whole for parameter in product.parameters()] + [*norms]

    def vectors(self, embedded: torch.Tensor) -> torch.Tensor:
        return self.normed(embedded, self.input_layernorm)

    def first_state(self, features: torch.Tensor) -> torch.Tensor:
        fused: torch.Tensor = self.fc(features)
        return fused

    def joined(
        self, vectors: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return state, torch.cat([vectors, self.normed(state, self.hidden_norm)], dim=1)

    def handed_on(self, hidden: torch.Tensor) -> torch.Tensor:
        """What takes the place of a fused feature at later levels: the parent's hidden state as it is."""
        return hidden

    def named_by(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.normed(hidden, self.norm)

    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        tensors = {
            "fc.weight": self.fc.weight,
            **self.layer_tensors("midlayer."),
            "midlayer.hidden_norm.weight": self.hidden_norm,
            "midlayer.input_layernorm.weight": self.input_layernorm,
            "norm.weight": self.norm,
            **(self.factors() or self.cut()),
        }
        values = self.fields(
            architectures=["LlamaForCausalLMEagle3"],
            draft_vocab_size=len(self.vocabulary),
            eagle_config={
                "use_aux_hidden_state": True,
                "eagle_aux_hidden_state_layer_ids": list(self.taps),
            },
        )
        return values, tensors
