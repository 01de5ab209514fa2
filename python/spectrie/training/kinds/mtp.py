"""A layer for multi-token prediction as a torch module, in MiMo's form.

`input_proj` joins the target's last normed state and the token's vector, both normed once more; behind it stands
one more layer of the model with a norm of its own, whose output names tokens and is the next level's state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from spectrie.training.kinds.chain import ChainHead
from spectrie.training.kinds.target_head import PRODUCTS, linear, norm_weight
from spectrie.training.target import Target

__all__ = ["Mtp"]

_PREFIX = "model.mtp_layers.0."
_NORMS = (
    "token_layernorm",
    "hidden_layernorm",
    "input_layernorm",
    "final_layernorm",
)


class Mtp(ChainHead):
    """The layer. It has the sizes and the rotation of the target's own."""

    def __init__(self, target: Target, vocabulary: torch.Tensor, *, warm: bool = True) -> None:
        """Builds a layer.

        Args:
            target: The model it drafts for; embedding and LM head are its own and stay as they are.
            vocabulary: Token ids it can name, ascending; all of them in the published form.
            warm: Whether to start from the target's last layer; else from random numbers.
        """
        super().__init__(target, (), vocabulary)
        self._values = target.values
        hidden = self._config.hidden_size
        self.input_proj = linear(2 * hidden, hidden)
        self.token_layernorm, self.hidden_layernorm = norm_weight(hidden), norm_weight(hidden)
        self.input_layernorm, self.final_layernorm = norm_weight(hidden), norm_weight(hidden)
        self.post_attention_layernorm = norm_weight(hidden)
        self.add_layer(hidden)
        if warm:
            self._start_from(target)

    @torch.no_grad()
    def _start_from(self, target: Target) -> None:
        """Copies the target's last layer; the state passes through `input_proj` unchanged."""
        hidden = self._config.hidden_size
        self.input_proj.weight.zero_()
        self.input_proj.weight[:, :hidden] = torch.eye(hidden)
        layer = target.layer(self._config.num_layers - 1)
        self.copy_products(layer, PRODUCTS)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            getattr(self, norm).copy_(layer[f"{norm}.weight"])
        self.final_layernorm.copy_(target.final_norm)

    def copied(self) -> list[nn.Parameter]:
        """The parameters that a warm start took from the target."""
        new = (self.input_proj.weight, self.token_layernorm, self.hidden_layernorm)
        fresh = {id(parameter) for parameter in new}
        return [parameter for parameter in self.parameters() if id(parameter) not in fresh]

    def vectors(self, embedded: torch.Tensor) -> torch.Tensor:
        return self.normed(embedded, self.token_layernorm)

    def first_state(self, features: torch.Tensor) -> torch.Tensor:
        return features

    def joined(
        self, vectors: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        both = [self.normed(state, self.hidden_layernorm), vectors]
        stream = self.input_proj(torch.cat(both, dim=1))
        return stream, self.normed(stream, self.input_layernorm)

    def handed_on(self, hidden: torch.Tensor) -> torch.Tensor:
        """The state after the layer's own last norm, as the target's is after its."""
        return self.named_by(hidden)

    def named_by(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.normed(hidden, self.final_layernorm)

    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        norms = {f"{name}.weight": getattr(self, name) for name in _NORMS}
        own = {
            "input_proj.weight": self.input_proj.weight,
            **norms,
            **(self.cut() if self.is_cut else self.factors()),
        }
        tensors = {f"{_PREFIX}{name}": tensor for name, tensor in own.items()}
        values = self._values | {
            "architectures": ["MiMoMTPModel"],
            "num_nextn_predict_layers": 1,
        }
        return values, tensors | self.layer_tensors(_PREFIX)
