"""Plain torch forwards written from the published layouts, to compare with and to train tiny heads from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn import functional

from spectrie.model.config.rope import RopeConfig
from spectrie.training.target import Target


@dataclass(frozen=True, slots=True)
class PlainFeatures:
    """As `spectrie.training.features.Features`."""

    features: torch.Tensor
    top_ids: torch.Tensor
    top_log_probabilities: torch.Tensor


def norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rotate(target: Target, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """[..., T, D] by position."""
    cosines, sines = (table[positions] for table in _tables(target.config.rope))
    half = cosines.shape[-1]
    low, high = x[..., :half], x[..., half : 2 * half]
    return torch.cat([low * cosines - high * sines, high * cosines + low * sines], -1)


@cache
def _tables(rope: RopeConfig) -> tuple[torch.Tensor, torch.Tensor]:
    cosines, sines = rope.tables(4096)
    return torch.from_numpy(cosines), torch.from_numpy(sines)


class PlainTarget:
    """The target in float32 over whole texts: reads features without a cache."""

    def __init__(
        self,
        target: Target,
        taps: Sequence[int],
        top: int,
        budget: int = 4096,
        *,
        final_norm: bool = False,
    ) -> None:
        self._target = target
        self._taps = tuple(taps)
        self._top = top
        self._budget = budget
        self._final_norm = final_norm
        self._layers = [target.layer(index) for index in range(target.config.num_layers)]

    def __call__(self, texts: Iterable[Sequence[int]], /) -> Iterator[PlainFeatures]:
        group: list[Sequence[int]] = []
        for text in texts:
            if group and (len(group) + 1) * max(map(len, [*group, text])) > self._budget:
                yield from self._run(group)
                group = []
            group.append(text)
        if group:
            yield from self._run(group)

    @torch.inference_mode()
    def _run(self, texts: Sequence[Sequence[int]]) -> Iterator[PlainFeatures]:
        longest = max(map(len, texts))
        tokens = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
        x, outputs = self.layers(tokens)
        final = norm(x, self._target.final_norm, self._target.config.norm_epsilon)
        for row, text in enumerate(texts):
            rows = slice(0, len(text))
            logits = final[row, rows] @ self._target.head.T
            found = logits.topk(self._top, -1)
            logs = found.values - logits.logsumexp(-1, keepdim=True)
            parts = [outputs[tap][row, rows] for tap in self._taps]
            features = torch.cat([*parts, final[row, rows]] if self._final_norm else parts, -1)
            yield PlainFeatures(features.clone(), found.indices.int(), logs)

    def layers(self, tokens: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The last layer's output and every layer's, [texts, T, hidden] each."""
        x = self._target.embedding[tokens]
        outputs = []
        for layer in self._layers:
            x = decoder_layer(self._target, layer, x)
            outputs.append(x)
        return x, outputs


def decoder_layer(target: Target, layer: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """One layer of a Llama over whole texts."""
    config = target.config
    texts, length, _ = x.shape
    positions = torch.arange(length)

    def heads(y: torch.Tensor) -> torch.Tensor:
        return y.view(texts, length, -1, config.head_dim).transpose(1, 2)

    normed = norm(x, layer["input_layernorm.weight"], config.norm_epsilon)
    query, key, value = (heads(normed @ layer[f"self_attn.{part}_proj.weight"].T) for part in "qkv")
    group = config.num_heads // config.num_kv_heads
    found = functional.scaled_dot_product_attention(
        rotate(target, query, positions),
        rotate(target, key, positions).repeat_interleave(group, 1),
        value.repeat_interleave(group, 1),
        is_causal=True,
    )
    x = x + found.transpose(1, 2).flatten(2) @ layer["self_attn.o_proj.weight"].T
    normed = norm(x, layer["post_attention_layernorm.weight"], config.norm_epsilon)
    gate, up = (normed @ layer[f"mlp.{part}_proj.weight"].T for part in ("gate", "up"))
    return x + (functional.silu(gate) * up) @ layer["mlp.down_proj.weight"].T


def train(
    target: Target, tensors: dict[str, torch.Tensor], batches: Sequence[torch.Tensor]
) -> float:
    """Trains the weights of a target in place, a step a batch of texts; returns the last loss."""
    layers = [
        {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }
        for prefix in (f"model.layers.{index}." for index in range(target.config.num_layers))
    ]
    embedding = tensors["model.embed_tokens.weight"]
    optimizer = torch.optim.AdamW(tensors.values(), lr=4e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=len(batches))
    for batch in batches:
        x = embedding[batch]
        for weights in layers:
            x = decoder_layer(target, weights, x)
        x = norm(x, tensors["model.norm.weight"], target.config.norm_epsilon)
        logits = x @ embedding.T
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return float(loss.detach())
