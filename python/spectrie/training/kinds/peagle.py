"""A P-EAGLE head as a torch module: an EAGLE-3 head of several layers that answers all levels in one forward.

Behind the row of the last token lie rows of one token, whatever is guessed there; a learned feature stands for the
target's, which is not known. A row sees the text before its draft and the rows of its draft before it. Names and
arithmetic as vLLM and SpecForge have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from spectrie.training.batches import Batch
from spectrie.training.kinds.attention import Attention
from spectrie.training.kinds.eagle3 import Eagle3
from spectrie.training.kinds.target_head import PRODUCTS, Layer, norm_weight
from spectrie.training.target import Target

__all__ = ["Peagle"]

_LAYERS = 2
_MASK_TOKEN = 0
"""Any will do: it is the feature that says that a token is not known."""
_MASK_STD = 0.5


class _Further(nn.Module, Layer):
    """A layer behind the first, without a token's vector."""

    input_layernorm: nn.Parameter
    post_attention_layernorm: nn.Parameter

    def __init__(self, head: Eagle3, hidden: int) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (
            norm_weight(hidden),
            norm_weight(hidden),
        )
        self.set_products(head.layer_products(hidden))


class Peagle(Eagle3):
    """The head."""

    def __init__(
        self, target: Target, taps: Sequence[int], vocabulary: torch.Tensor, *, warm: bool = True
    ) -> None:
        """Builds a head; arguments as of `Eagle3`."""
        super().__init__(target, taps, vocabulary, warm=False)
        hidden, last = self._config.hidden_size, self._config.num_layers - 1
        self.further = nn.ModuleList(_Further(self, hidden) for _ in range(_LAYERS - 1))
        self.mask_hidden = nn.Parameter(torch.randn(1, len(taps) * hidden) * _MASK_STD)
        if warm:
            self.start_from(target, max(last - len(self.further), 0))
            self._start_further(target, last)

    @torch.no_grad()
    def _start_further(self, target: Target, last: int) -> None:
        for index, own in enumerate(self._further_layers(), 1):
            layer = target.layer(max(last - len(self.further) + index, 0))
            own.copy_products(layer, PRODUCTS)
            for norm in ("input_layernorm", "post_attention_layernorm"):
                getattr(own, norm).copy_(layer[f"{norm}.weight"])

    def _further_layers(self) -> list[_Further]:
        return [layer for layer in self.further if isinstance(layer, _Further)]

    def copied(self) -> list[nn.Parameter]:
        return [*super().copied(), *self.further.parameters()]

    def mask_tokens(self, tokens: torch.Tensor) -> torch.Tensor:
        """The tokens of rows that stand for the unknown, int64 [N], where the text has `tokens`."""
        return torch.full_like(tokens, _MASK_TOKEN)

    def mask_state(self) -> torch.Tensor:
        """The state of those rows, [1, hidden]."""
        return self.first_state(self.mask_hidden)

    def mask_positions(self, positions: torch.Tensor, level: int) -> torch.Tensor:
        """The positions of a level's rows, int64 [N], where the text has `positions`."""
        return positions

    def hidden_states(self, batch: Batch) -> Iterator[torch.Tensor]:
        """Yields what the last layer leaves at the rows of each level, [N, hidden]."""
        texts, length = batch.tokens.shape
        tokens = batch.tokens.flatten()
        places = torch.arange(length).repeat(texts)
        rows = [torch.arange(texts * length), *(level.rows for level in batch.levels[1:])]
        state = self.first_state(batch.features.flatten(0, 1))
        pairs = [self.joined(self.vectors(self._embedding[tokens]), state)]
        positions = [places]
        for number, at in enumerate(rows[1:], 1):
            vectors = self.vectors(self._embedding[self.mask_tokens(tokens[at])])
            pairs.append(self.joined(vectors, self.mask_state().expand(len(at), -1)))
            positions.append(self.mask_positions(places[at], number))
        streams = [stream for stream, _ in pairs]
        inputs = [taken for _, taken in pairs]
        layers: list[Peagle | _Further] = [self, *self._further_layers()]
        for layer in layers:
            if isinstance(layer, _Further):
                inputs = [self.normed(stream, layer.input_layernorm) for stream in streams]
            attention = Attention(self._config, texts, length)
            for number, (at, place) in enumerate(zip(rows, positions, strict=True)):
                taken = inputs[number]
                key = self.turned(layer.k_proj(taken), place)
                attention.add(key, layer.v_proj(taken), at)
                query = self.turned(layer.q_proj(taken), place)
                hidden = streams[number] + layer.o_proj(attention.attend(query, at))
                normed = self.normed(hidden, layer.post_attention_layernorm)
                gated = functional.silu(layer.gate_proj(normed)) * layer.up_proj(normed)
                streams[number] = hidden + layer.down_proj(gated)
        yield streams[0][batch.levels[0].rows]
        yield from streams[1:]

    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        values, tensors = super().published()
        tensors = {name.replace("midlayer.", "layers.0."): one for name, one in tensors.items()}
        for index, layer in enumerate(self._further_layers(), 1):
            prefix = f"layers.{index}."
            tensors |= layer.product_tensors(prefix)
            for norm in ("input_layernorm", "post_attention_layernorm"):
                tensors[f"{prefix}{norm}.weight"] = getattr(layer, norm)
        tensors["mask_hidden"] = self.mask_hidden[None]
        values |= {
            "architectures": ["PEagleDraftModel"],
            "num_hidden_layers": _LAYERS,
            "parallel_drafting": True,
            "ptd_token_id": _MASK_TOKEN,
        }
        return values, tensors
