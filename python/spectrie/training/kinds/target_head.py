"""What heads take from their target: token vectors, LM head, rotation, and sizes of a layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from spectrie.training.batches import Batch, Level
from spectrie.training.kinds.base import Head
from spectrie.training.kinds.weighed import Weighed
from spectrie.training.target import Target

__all__ = ["PRODUCTS", "Layer", "TargetHead", "linear", "norm_weight"]

PRODUCTS = {
    **{f"{part}_proj": f"self_attn.{part}_proj" for part in "qkvo"},
    **{f"{part}_proj": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
}
"""Products of a layer: their names in a module, and in a file."""

_NEW_STD = 0.02


class Layer:
    """A module that has one layer's products, under `PRODUCTS`' names."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    o_proj: nn.Linear
    gate_proj: nn.Linear
    up_proj: nn.Linear
    down_proj: nn.Linear

    def set_products(self, products: Mapping[str, nn.Linear]) -> None:
        """Takes new products, as `TargetHead.layer_products` gives them."""
        for name, product in products.items():
            setattr(self, name, product)

    @torch.no_grad()
    def copy_products(self, layer: Mapping[str, torch.Tensor], names: Iterable[str]) -> None:
        """Copies products from a layer of the target, as `Target.layer` gives it."""
        for name in names:
            getattr(self, name).weight.copy_(layer[f"{PRODUCTS[name]}.weight"])

    def product_tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        """The products' weights under their published names behind `prefix`."""
        return {
            f"{prefix}{published}.weight": getattr(self, name).weight
            for name, published in PRODUCTS.items()
        }


def linear(inputs: int, outputs: int, *, bias: bool = False) -> nn.Linear:
    """A new product, of small random numbers."""
    made = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(made.weight, std=_NEW_STD)
    if bias:
        nn.init.zeros_(made.bias)
    return made


def norm_weight(width: int) -> nn.Parameter:
    """Weights of a new norm: ones."""
    return nn.Parameter(torch.ones(width))


class TargetHead(Head):
    """A head that reads tokens, names them and rotates positions as its target does.

    Embedding and LM head are the target's own and stay as they are; they are not stored.
    """

    _embedding: torch.Tensor
    _cosines: torch.Tensor
    _sines: torch.Tensor

    def __init__(
        self, target: Target, taps: Sequence[int], vocabulary: torch.Tensor, *, ahead: int = 0
    ) -> None:
        """Takes what the target gives.

        Args:
            target: The model it drafts for.
            taps: Layers, ascending.
            vocabulary: Token ids it can name, ascending.
            ahead: Positions behind the longest context that it rotates to.
        """
        super().__init__()
        self._config = config = target.config
        self._rope = target.rope
        self.taps = tuple(taps)
        self._weighed = Weighed.of(target.head, vocabulary)
        cosines, sines = config.rope.tables(config.max_context + ahead)
        for name, value in (
            ("vocabulary", vocabulary),
            ("_embedding", target.embedding),
            ("_cosines", torch.from_numpy(cosines)),
            ("_sines", torch.from_numpy(sines)),
        ):
            self.register_buffer(name, value, persistent=False)

    def layer_products(self, inputs: int) -> dict[str, nn.Linear]:
        """New products of a layer whose attention takes rows of `inputs` numbers, by `PRODUCTS`' names."""
        config = self._config
        hidden, inner = config.hidden_size, config.intermediate_size
        queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        sizes = {"q": (inputs, queries), "k": (inputs, keys), "v": (inputs, keys)}
        sizes |= {"o": (queries, hidden), "gate": (hidden, inner), "up": (hidden, inner)}
        sizes |= {"down": (inner, hidden)}
        return {f"{part}_proj": linear(*size) for part, size in sizes.items()}

    def guess(self, state: torch.Tensor) -> torch.Tensor:
        """Logits over the draft vocabulary by the target's LM head, float32."""
        return self._weighed.guess(state)

    def loss(self, level: Level, logits: torch.Tensor) -> torch.Tensor:
        """Cross-entropy with the target's likeliest tokens that it can name, summed over the rows."""
        return self._weighed.loss(level, logits)

    def weighed(self, batch: Batch) -> Weighed:
        """Rows of the LM head that a step of training weighs: all of the draft vocabulary, or what stands for it."""
        if self.common is None:
            return self._weighed
        labels = batch.levels[0].top_ids.flatten()
        return Weighed.drawn(self._weighed.head, torch.cat([self.common, labels]), batch.seed)

    def normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Root mean square norm over the last dimension, float32."""
        x = x.float()
        mean = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean + self._config.norm_epsilon) * weight

    def turned(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Applies rotary embedding to [N, heads * head_dim]."""
        half = self._config.rope.rotated // 2
        heads = x.view(len(x), -1, self._config.head_dim)
        cosines = self._cosines[positions][:, None, :].to(x.dtype)
        sines = self._sines[positions][:, None, :].to(x.dtype)
        low, high, rest = heads[..., :half], heads[..., half : 2 * half], heads[..., 2 * half :]
        turned = [low * cosines - high * sines, high * cosines + low * sines, rest]
        return torch.cat(turned, dim=-1).flatten(1)

    def cut(self) -> dict[str, torch.Tensor]:
        """`d2t`, the offset of each named token's id, and `t2d`, which tokens are named."""
        known = torch.zeros(self._config.vocabulary_size, dtype=torch.bool)
        known[self.vocabulary] = True
        return {"d2t": self.vocabulary - torch.arange(len(self.vocabulary)), "t2d": known}

    def factors(self) -> dict[str, torch.Tensor]:
        """The factors of low rank, if it has them: what they find is weighed by the target's head."""
        found = self.low_rank
        if found is None:
            return {}
        return {"low_rank.down.weight": found.down, "low_rank.basis.weight": found.basis}

    @property
    def is_cut(self) -> bool:
        """Whether it names fewer tokens than the target."""
        return len(self.vocabulary) < self._config.vocabulary_size

    def fields(self, **own: Any) -> dict[str, Any]:
        """Fields of `config.json` that heads with one of their own have, and those given."""
        config = self._config
        return {
            "model_type": "llama",
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "num_hidden_layers": 1,
            "num_attention_heads": config.num_heads,
            "num_key_value_heads": config.num_kv_heads,
            "head_dim": config.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": config.norm_epsilon,
            "max_position_embeddings": config.max_context,
            **self._rope,
            "vocab_size": config.vocabulary_size,
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": False,
            **own,
        }
