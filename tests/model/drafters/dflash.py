"""Random tiny DFLASH heads in their published form, and plain torch that says what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tests.model.drafters.heads import HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS

__all__ = [
    "BLOCK",
    "DFLASH",
    "DFLASH2",
    "MASK",
    "TAPS",
    "BlockReference",
    "block_tensors",
    "selected",
]

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

CONV_TAPS, CONV_GROUP, RANK, CANDIDATES = 3, 12, 8, 20

DFLASH2: dict[str, Any] = DFLASH | {
    "architectures": ["DFlash2DraftModel"],
    "dflash_config": DFLASH["dflash_config"]
    | {
        "conv_kernel_size": CONV_TAPS,
        "conv_group_size": CONV_GROUP,
        "selector_rank": RANK,
        "selector_top_k": CANDIDATES,
    },
}
"""The same of DFLASH 2."""


def block_tensors(
    layers: int = 2,
    seed: int = 8,
    hidden: int = HIDDEN,
    *,
    selected: int = 0,
    group: int = CONV_GROUP,
) -> dict[str, torch.Tensor]:
    """Returns tensors by the names of z-lab's dflash; of DFLASH 2 for a vocabulary of `selected` tokens."""
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
        for half in ("attention", "mlp") if selected else ():
            base = torch.randn(2, CONV_TAPS, hidden, generator=generator) * 0.5
            kernels = 2 * CONV_TAPS * (hidden // group)
            tensors |= {
                f"layers.{index}.{half}_conv.base_kernel": base,
                f"layers.{index}.{half}_conv.kernel_projection.weight": matrix(kernels, hidden),
            }
    if selected:
        # Such that they say as much as the logits do.
        tensors |= {
            "candidate_selector.predecessor_codebook": matrix(selected, RANK) * 2,
            "candidate_selector.successor_codebook": matrix(selected, RANK) * 2,
            "candidate_selector.hidden_projection.weight": matrix(RANK, hidden),
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
        wrong: A wrong form of the forward: `causal`, `context_normed`, `raw_context` or `later`; of DFLASH 2
            `sides`, `ahead`, `static`, `by_token` or `unprojected`.
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
        return (self.states(features, anchor) @ self.head.T).log_softmax(-1)

    def selected(
        self, features: torch.Tensor, anchor: int, guesses: list[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns log-probabilities as a selector has them, and which tokens are candidates.

        Args:
            features: As above.
            anchor: The last emitted token.
            guesses: The token before each place; the first is the anchor.
        """
        states = self.states(features, anchor)
        logits = states @ self.head.T
        before = torch.tensor(guesses)
        if self.wrong == "by_token":
            before = before[:1].expand(len(guesses))
        return selected(self.tensors, states, logits, before, self.wrong)

    def states(self, features: torch.Tensor, anchor: int) -> torch.Tensor:
        """Returns what the head takes behind the last token, [block - 1, hidden]; arguments as above."""
        context = features @ self.tensors["fc.weight"].T
        if self.wrong != "raw_context":
            context = self._norm(context, "hidden_norm")
        # `later` has the block begin one position behind its own.
        start = len(features) + (self.wrong == "later")
        positions = torch.arange(start, start + BLOCK)
        mask = self.tensors.get("mask_embedding", self.embedding[MASK])
        stream = torch.stack([self.embedding[anchor], *[mask] * (BLOCK - 1)])
        stream = stream * self.config.get("input_embedding_scale", 1.0)
        for index, kind in enumerate(self.config["layer_types"]):
            prefix = f"layers.{index}"
            x = self._norm(stream, f"{prefix}.input_layernorm")
            is_causal = self.config.get("is_causal", kind == "sliding_attention")
            is_causal = is_causal or self.wrong == "causal"
            window = self.config["sliding_window"] if kind == "sliding_attention" else None
            if not self.config.get("use_sliding_window"):
                window = None
            x, kernels = self._before(f"{prefix}.attention_conv", x)
            x = self._attention(prefix, x, context, positions, window, is_causal)
            stream = stream + self._behind(f"{prefix}.attention_conv", x, kernels)
            x = self._norm(stream, f"{prefix}.post_attention_layernorm")
            x, kernels = self._before(f"{prefix}.mlp_conv", x)
            gate = torch.nn.functional.silu(x @ self._weight(prefix, "mlp.gate_proj").T)
            up = x @ self._weight(prefix, "mlp.up_proj").T
            x = (gate * up) @ self._weight(prefix, "mlp.down_proj").T
            stream = stream + self._behind(f"{prefix}.mlp_conv", x, kernels)
        return self._norm(stream[1:], "norm")

    def _before(self, name: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """What goes into a half of a layer, and the kernels for what comes out."""
        base = self.tensors.get(f"{name}.base_kernel")
        if base is None:
            return x, None
        dynamic = (x @ self._weight(name, "kernel_projection").T).view(len(x), 2, CONV_TAPS, -1)
        kernels = base[None] + dynamic.repeat_interleave(CONV_GROUP, dim=-1)
        if self.wrong == "static":
            kernels = base[None].expand_as(kernels)
        if self.wrong == "sides":
            kernels = kernels.flip(1)
        return self._convolved(x, kernels[:, 0]), kernels[:, 1]

    def _behind(self, name: str, x: torch.Tensor, kernels: torch.Tensor | None) -> torch.Tensor:
        return x if kernels is None else self._convolved(x, kernels)

    def _convolved(self, x: torch.Tensor, kernels: torch.Tensor) -> torch.Tensor:
        """Each row from itself and the rows before it, [block, hidden], by [block, taps, hidden]."""
        rows = []
        for row in range(len(x)):
            taken = (row + tap if self.wrong == "ahead" else row - tap for tap in range(CONV_TAPS))
            parts = [kernels[row, tap] * x[at] for tap, at in enumerate(taken) if 0 <= at < len(x)]
            rows.append(torch.stack(parts).sum(0))
        return torch.stack(rows)

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
        hidden = distance < 0 if is_causal else torch.zeros_like(distance, dtype=torch.bool)
        if window is not None:
            hidden = hidden | (distance.abs() >= window)
        scores = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        attended = torch.einsum("hqk,khd->qhd", scores, values).flatten(1)
        return attended @ self._weight(prefix, "self_attn.o_proj").T

    def _rotated(self, heads: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        exponents = torch.arange(0, HEAD_DIM, 2) / HEAD_DIM
        angles = positions[:, None] / self.config["rope_theta"] ** exponents
        low, high = heads.chunk(2, dim=-1)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)


def selected(
    tensors: dict[str, torch.Tensor],
    states: torch.Tensor,
    logits: torch.Tensor,
    before: torch.Tensor,
    wrong: str = "",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns log-probabilities of all tokens as a selector has them, and which are candidates.

    A token that is none has the probability that it would have as one more of them.
    """
    names = ("predecessor_codebook", "successor_codebook", "hidden_projection.weight")
    predecessor, successor, projection = (tensors[f"candidate_selector.{name}"] for name in names)
    projected = torch.ones(len(states), RANK) if wrong == "unprojected" else states @ projection.T
    scores = logits + (predecessor[before] * projected) @ successor.T
    is_candidate = torch.zeros_like(logits, dtype=torch.bool)
    is_candidate.scatter_(1, logits.topk(CANDIDATES).indices, True)
    total = scores.masked_fill(~is_candidate, float("-inf")).logsumexp(-1, keepdim=True)
    total = torch.where(is_candidate, total, torch.logaddexp(total, scores))
    return scores - total, is_candidate
