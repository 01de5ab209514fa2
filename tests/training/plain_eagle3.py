"""An EAGLE-3 head in plain torch, one row at a time, from the published layout and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.nn import functional

from spectrie.training.target import Target
from tests.training.plain import norm, rotate

Tensors = Mapping[str, torch.Tensor]


def chain(
    target: Target,
    tensors: Tensors,
    tokens: Sequence[int],
    features: torch.Tensor,
    root: int,
    levels: int,
) -> list[torch.Tensor]:
    """Logits over the draft vocabulary of rows `root` .. `root + levels - 1`: the first from the target's
    features, each later one from what the row before it hands on.

    Args:
        target: Gives embedding, LM head, rotation and sizes.
        tensors: The head's, under published names.
        tokens: The text; later rows take its tokens.
        features: [T, taps * hidden], of each token.
        root: Row of the first guess, 1 or more.
        levels: Rows.
    """
    config = target.config
    entries: list[tuple[torch.Tensor, torch.Tensor]] = []

    def weight(name: str) -> torch.Tensor:
        return tensors[f"midlayer.{name}.weight"]

    def row(position: int, feature: torch.Tensor) -> torch.Tensor:
        """Adds the entry of a position; returns the row's hidden state."""
        embedded = norm(
            target.embedding[tokens[position]], weight("input_layernorm"), config.norm_epsilon
        )
        normed = norm(feature, weight("hidden_norm"), config.norm_epsilon)
        inputs = torch.cat([embedded, normed])
        query, key, value = (
            (weight(f"self_attn.{part}_proj") @ inputs).view(-1, config.head_dim) for part in "qkv"
        )
        at = torch.tensor(position)
        entries.append((rotate(target, key, at), value))
        group = config.num_heads // config.num_kv_heads
        query = rotate(target, query, at)
        keys = torch.stack([one for one, _ in entries]).repeat_interleave(group, 1)
        values = torch.stack([one for _, one in entries]).repeat_interleave(group, 1)
        scores = torch.einsum("hd,thd->ht", query, keys) * config.head_dim**-0.5
        found = torch.einsum("ht,thd->hd", scores.softmax(-1), values).flatten()
        hidden = feature + weight("self_attn.o_proj") @ found
        normed = norm(hidden, weight("post_attention_layernorm"), config.norm_epsilon)
        gated = functional.silu(weight("mlp.gate_proj") @ normed) * (weight("mlp.up_proj") @ normed)
        return hidden + weight("mlp.down_proj") @ gated

    def fused(position: int) -> torch.Tensor:
        return tensors["fc.weight"] @ features[position]

    for position in range(1, root):
        row(position, fused(position - 1))
    ids = torch.arange(len(tensors["d2t"])) + tensors["d2t"]
    hidden = fused(root - 1)
    logits = []
    for position in range(root, root + levels):
        hidden = row(position, hidden)
        normed = norm(hidden, tensors["norm.weight"], config.norm_epsilon)
        logits.append(target.head[ids] @ normed)
    return logits
