"""Random tiny DFLASH heads in their published form, and plain torch that says what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tests.model.drafters.heads import HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS

__all__ = ["BLOCK", "DFLASH", "TAPS", "BlockReference", "block_tensors"]

BLOCK = 6
TAPS = [0, 1]
MASK = 150

DFLASH: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "draft_vocab_size": None,
    "eagle_config": None,
    "block_size": BLOCK,
    "num_target_layers": 3,
    "layer_types": ["full_attention", "sliding_attention"],
    "use_sliding_window": True,
    "sliding_window": 24,
    "dflash_config": {"mask_token_id": MASK, "target_layer_ids": TAPS},
}
"""Changes of `heads.CONFIG`."""


def block_tensors(layers: int = 2, seed: int = 8, hidden: int = HIDDEN) -> dict[str, torch.Tensor]:
    """Returns tensors by the names of z-lab's dflash."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        scale: float = 1.5 / columns**0.5
        return torch.randn(rows, columns, generator=generator) * scale

    def norm(width: int = hidden) -> torch.Tensor:
        return 1 + 0.3 * torch.randn(width, generator=generator)

    tensors = {
        "fc.weight": matrix(hidden, len(TAPS) * hidden),
        "hidden_norm.weight": norm(),
        "norm.weight": norm(),
    }
    queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    for index in range(layers):
        tensors |= {
            f"layers.{index}.input_layernorm.weight": norm(),
            f"layers.{index}.post_attention_layernorm.weight": norm(),
            f"layers.{index}.self_attn.q_norm.weight": norm(HEAD_DIM),
            f"layers.{index}.self_attn.k_norm.weight": norm(HEAD_DIM),
            f"layers.{index}.self_attn.q_proj.weight": matrix(queries, hidden),
            f"layers.{index}.self_attn.k_proj.weight": matrix(keys, hidden),
            f"layers.{index}.self_attn.v_proj.weight": matrix(keys, hidden),
            f"layers.{index}.self_attn.o_proj.weight": matrix(hidden, queries),
            f"layers.{index}.mlp.gate_proj.weight": matrix(INNER, hidden),
            f"layers.{index}.mlp.up_proj.weight": matrix(INNER, hidden),
            f"layers.{index}.mlp.down_proj.weight": matrix(hidden, INNER),
        }
    return tensors


@dataclass
class BlockReference:
    """A DFLASH head in float32, at the positions of the published code.

    Attributes:
        tensors: As `block_tensors` names them.
        embedding: The target's token vectors, [vocabulary, hidden].
        head: The target's LM head, likewise.
        config: Of the head.
        wrong: A wrong form of the forward: `causal`, `context_normed`, `raw_context` or `later`.
    """

    tensors: dict[str, torch.Tensor]
    embedding: torch.Tensor
    head: torch.Tensor
    config: dict[str, Any] = field(default_factory=dict)
    wrong: str = ""

    def log_probabilities(self, features: torch.Tensor, anchor: int) -> torch.Tensor:
        """Returns log-probabilities of the tokens behind the last one, [block - 1, vocabulary].

        Args:
            features: Of the committed tokens, [T, taps * hidden].
            anchor: The last emitted token, whose feature is not known.
        """
        context = features @ self.tensors["fc.weight"].T
        if self.wrong != "raw_context":
            context = self._norm(context, "hidden_norm")
        # `later` has the block begin one position behind its own.
        start = len(features) + (self.wrong == "later")
        positions = torch.arange(start, start + BLOCK)
        mask = self.tensors.get("mask_embedding", self.embedding[MASK])
        stream = torch.stack([self.embedding[anchor], *[mask] * (BLOCK - 1)])
        for index, kind in enumerate(self.config["layer_types"]):
            prefix = f"layers.{index}"
            x = self._norm(stream, f"{prefix}.input_layernorm")
            is_causal = kind == "sliding_attention" or self.wrong == "causal"
            window = self.config["sliding_window"] if kind == "sliding_attention" else None
            if not self.config.get("use_sliding_window"):
                window = None
            stream = stream + self._attention(prefix, x, context, positions, window, is_causal)
            x = self._norm(stream, f"{prefix}.post_attention_layernorm")
            gate = torch.nn.functional.silu(x @ self._weight(prefix, "mlp.gate_proj").T)
            up = x @ self._weight(prefix, "mlp.up_proj").T
            stream = stream + (gate * up) @ self._weight(prefix, "mlp.down_proj").T
        return (self._norm(stream[1:], "norm") @ self.head.T).log_softmax(-1)

    def _weight(self, prefix: str, name: str) -> torch.Tensor:
        return self.tensors[f"{prefix}.{name}.weight"]

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return x * scale * self.tensors[f"{name}.weight"]

    def _attention(
        self,
        prefix: str,
        x: torch.Tensor,
        context: torch.Tensor,
        positions: torch.Tensor,
        window: int | None,
        is_causal: bool,
    ) -> torch.Tensor:
        if self.wrong == "context_normed":
            context = self._norm(context, f"{prefix}.input_layernorm")
        before = torch.arange(len(context))
        every = torch.cat([before, positions])

        def heads(name: str, rows: torch.Tensor) -> torch.Tensor:
            return (rows @ self._weight(prefix, f"self_attn.{name}_proj").T).view(
                len(rows), -1, HEAD_DIM
            )

        def prepared(name: str, rows: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return self._rotated(
                self._norm(heads(name, rows), f"{prefix}.self_attn.{name}_norm"), at
            )

        both = torch.cat([context, x])
        queries = prepared("q", x, positions)
        keys, values = prepared("k", both, every), heads("v", both)
        group = queries.shape[1] // keys.shape[1]
        keys, values = (one.repeat_interleave(group, dim=1) for one in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", queries, keys) * HEAD_DIM**-0.5
        distance = positions[:, None] - every[None, :]
        hidden = torch.zeros_like(distance, dtype=torch.bool)
        if is_causal:
            hidden = (distance < 0) | (distance >= (window or 10**6))
        scores = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        attended = torch.einsum("hqk,khd->qhd", scores, values).flatten(1)
        return attended @ self._weight(prefix, "self_attn.o_proj").T

    def _rotated(self, heads: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        exponents = torch.arange(0, HEAD_DIM, 2) / HEAD_DIM
        angles = positions[:, None] / self.config["rope_theta"] ** exponents
        low, high = heads.chunk(2, dim=-1)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)
