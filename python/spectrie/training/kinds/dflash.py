"""A DFLASH head as a torch module: layers that fill in a block of masks behind the last token in one forward.

Layout and arithmetic as in z-lab's dflash: `fc` and a norm make the context of all layers from outputs of the
target's; a layer makes keys and values of it, without a norm of its own, beside those of the block, all of which
sees itself. The feature of the block's first token is not known, so the context ends before it. A vector stands for
masks, as few models have a token to spare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from spectrie.training.batches import Batch, Level
from spectrie.training.kinds.target_head import PRODUCTS, TargetHead, linear, norm_weight
from spectrie.training.target import Target

__all__ = ["BlockLayer", "Dflash"]

_LAYERS = 2
_BLOCK_ROWS = 3
"""Rows of blocks in training for each row of the text: more places of one text teach little more."""


@dataclass(frozen=True, slots=True)
class _Anchors:
    """The first tokens of `N` blocks.

    Attributes:
        rows: int64 [N], row of each in the batch, `text * T + position`.
        text: int64 [N], its text.
        place: int64 [N], its number among those of its text.
        position: int64 [texts, A], position of each, 0 where a text has fewer than the `A` of the longest.
    """

    rows: torch.Tensor
    text: torch.Tensor
    place: torch.Tensor
    position: torch.Tensor

    @classmethod
    def of(cls, rows: torch.Tensor, texts: int, length: int) -> _Anchors:
        text = rows // length
        counts = torch.bincount(text, minlength=texts)
        place = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[text]
        position = rows.new_zeros(texts, max(int(counts.max()), 1))
        position[text, place] = rows % length
        return cls(rows, text, place, position)


class BlockLayer(nn.Module):
    """Parameters of one layer."""

    def __init__(self, head: TargetHead, hidden: int, head_dim: int) -> None:
        """Builds a layer of random numbers, of a head with rows of `hidden`."""
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (
            norm_weight(hidden),
            norm_weight(hidden),
        )
        self.q_norm, self.k_norm = norm_weight(head_dim), norm_weight(head_dim)
        self._products = nn.ModuleDict(head.layer_products(hidden))

    def product(self, name: str) -> nn.Linear:
        """One of its products, by `PRODUCTS`' names."""
        found: nn.Linear = self._products.get_submodule(name)  # type: ignore[assignment]
        return found

    def through(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """What a product makes of rows."""
        made: torch.Tensor = self.product(name)(x)
        return made

    def entered(
        self, half: str, inputs: torch.Tensor
    ) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
        """What a half, `attention` or `mlp`, takes of its normed rows, and what is made of the rows that it
        gives, all [N, block, hidden]: here the same."""
        return inputs, lambda rows: rows

    def tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        """The parameters under their published names behind `prefix`."""
        found = {
            f"{prefix}{published}.weight": self.product(name).weight
            for name, published in PRODUCTS.items()
        }
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{prefix}{name}.weight"] = getattr(self, name)
        for name in ("q_norm", "k_norm"):
            found[f"{prefix}self_attn.{name}.weight"] = getattr(self, name)
        return found


class Dflash(TargetHead):
    """The head. It answers as many levels as its block has masks."""

    def __init__(
        self,
        target: Target,
        taps: Sequence[int],
        vocabulary: torch.Tensor,
        levels: int,
        *,
        warm: bool = True,
    ) -> None:
        """Builds a head.

        Args:
            target: The model it drafts for; embedding and LM head are its own and stay as they are.
            taps: Layers, ascending.
            vocabulary: All token ids: the published form has no cut.
            levels: Masks of a block, at least 2.
            warm: Whether to start from the target's last layers; else from random numbers.
        """
        super().__init__(target, taps, vocabulary, ahead=levels + 1)
        self.block = levels + 1
        hidden = self._config.hidden_size
        self.fc = linear(len(taps) * hidden, hidden)
        self.hidden_norm, self.norm = norm_weight(hidden), norm_weight(hidden)
        self.mask_embedding = nn.Parameter(target.embedding.mean(dim=0))
        self.layers = nn.ModuleList(self.new_layer(hidden) for _ in range(_LAYERS))
        if warm:
            self._start_from(target)

    def new_layer(self, hidden: int) -> BlockLayer:
        """A layer of random numbers."""
        return BlockLayer(self, hidden, self._config.head_dim)

    @torch.no_grad()
    def _start_from(self, target: Target) -> None:
        """Copies the target's last layers; the deepest tap passes through `fc` unchanged."""
        hidden, last = self._config.hidden_size, self._config.num_layers - 1
        self.fc.weight.zero_()
        self.fc.weight[:, -hidden:] = torch.eye(hidden)
        for index, own in enumerate(self._own_layers()):
            layer = target.layer(max(last - (_LAYERS - 1) + index, 0))
            for name, published in PRODUCTS.items():
                own.product(name).weight.copy_(layer[f"{published}.weight"])
            for norm in ("input_layernorm", "post_attention_layernorm"):
                getattr(own, norm).copy_(layer[f"{norm}.weight"])
        self.norm.copy_(target.final_norm)

    def _own_layers(self) -> list[BlockLayer]:
        return [layer for layer in self.layers if isinstance(layer, BlockLayer)]

    def copied(self) -> list[nn.Parameter]:
        """The parameters that a warm start took from the target."""
        found = [*self.fc.parameters(), self.norm]
        for layer in self._own_layers():
            for name in PRODUCTS:
                found += [*layer.product(name).parameters()]
            found += [layer.input_layernorm, layer.post_attention_layernorm]
        return found

    def losses(self, batch: Batch) -> list[torch.Tensor]:
        """The loss of each level, of some of the blocks, scaled to what all of them would give."""
        count = len(batch.levels[0].rows)
        chosen = min(count, -(-_BLOCK_ROWS * count // self.block))
        generator = torch.Generator().manual_seed(batch.seed)
        blocks = torch.randperm(count, generator=generator)[:chosen].sort().values
        # Logits of the whole vocabulary are computed again for gradients: levels of them would fill memory.
        tokens = batch.tokens.flatten()
        return [
            checkpoint(self.loss_behind, level, states, tokens[level.rows], use_reentrant=False)
            * (len(whole.rows) / max(len(states), 1))
            for whole, (level, states) in zip(batch.levels, self.asked(batch, blocks), strict=True)
        ]

    def named_states(self, batch: Batch) -> Iterator[torch.Tensor]:
        blocks = torch.arange(len(batch.levels[0].rows))
        return (states for _, states in self.asked(batch, blocks))

    def judged(self, batch: Batch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        losses, guesses = [], []
        tokens = batch.tokens.flatten()
        for level, states in self.asked(batch, torch.arange(len(batch.levels[0].rows))):
            before = tokens[level.rows]
            losses.append(self.loss_behind(level, states, before))
            guesses.append(self.vocabulary[self.likeliest(states, before)])
        return losses, guesses

    def loss_behind(self, level: Level, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """The loss of rows, summed.

        Args:
            level: The rows.
            states: What the LM head takes there, [N, hidden].
            before: int64 [N], the token before each guess, which this form does not read.
        """
        return self.loss(level, self.guess(states))

    def likeliest(self, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Index of each row's likeliest token, int64 [N]; arguments as above."""
        return self.guess(states).argmax(1)

    def asked(self, batch: Batch, blocks: torch.Tensor) -> Iterator[tuple[Level, torch.Tensor]]:
        """Yields, by level, the rows that some blocks answer and what the LM head takes there, [N, hidden].

        Args:
            batch: Texts.
            blocks: int64, the blocks' numbers among the rows of level 0, ascending.
        """
        states = self.states(batch, batch.levels[0].rows[blocks])
        number = torch.full((len(batch.levels[0].rows),), -1)
        number[blocks] = torch.arange(len(blocks))
        for depth, level in enumerate(batch.levels, 1):
            if depth > 1:
                number = number[level.parents]
            here = (number >= 0).nonzero().flatten()
            yield _part(level, here), states[number[here], depth]

    def states(self, batch: Batch, rows: torch.Tensor) -> torch.Tensor:
        """What the LM head takes at every row of some blocks: [N, block, hidden].

        Args:
            batch: Texts.
            rows: int64 [N], rows of the blocks' first tokens, ascending.
        """
        texts, length = batch.tokens.shape
        anchors = _Anchors.of(rows, texts, length)
        # Row p of a batch has the feature of token p - 1; the last token's is that of no row.
        features = torch.cat([batch.features[:, 1:], batch.features[:, :1]], dim=1)
        context = self.normed(self.fc(features), self.hidden_norm)
        stream = self.mask_embedding.expand(len(rows), self.block, -1).clone()
        stream[:, 0] = self._embedding[batch.tokens.flatten()[rows]]
        for layer in self._own_layers():
            stream = self._through(layer, stream, context, anchors)
        return self.normed(stream, self.norm)

    def _through(
        self, layer: BlockLayer, stream: torch.Tensor, context: torch.Tensor, anchors: _Anchors
    ) -> torch.Tensor:
        """One layer over blocks, [N, block, hidden]."""
        inputs, behind = layer.entered("attention", self.normed(stream, layer.input_layernorm))
        attended = self._attend(layer, inputs, context, anchors)
        stream = stream + behind(layer.through("o_proj", attended))
        inputs, behind = layer.entered("mlp", self.normed(stream, layer.post_attention_layernorm))
        gated = functional.silu(layer.through("gate_proj", inputs)) * layer.through(
            "up_proj", inputs
        )
        return stream + behind(layer.through("down_proj", gated))

    def _attend(
        self, layer: BlockLayer, inputs: torch.Tensor, context: torch.Tensor, anchors: _Anchors
    ) -> torch.Tensor:
        """Attends from every row of a block to the context before it and to the whole block."""
        texts, length, _ = context.shape
        longest, size = anchors.position.shape[1], self._config.head_dim
        group = self._config.num_heads // self._config.num_kv_heads
        before = torch.arange(length).repeat(texts)
        inside = self.block_positions(anchors)

        def heads(name: str, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
            """[..., heads, head_dim], of which queries and keys are normed and rotated."""
            rows = layer.through(f"{name}_proj", x).flatten(0, 1)
            if positions is not None:
                weight = layer.q_norm if name == "q" else layer.k_norm
                rows = self.normed(rows.view(len(rows), -1, size), weight).flatten(1)
                rows = self.turned(rows, positions)
            rows = rows.view(*x.shape[:2], -1, size)
            return rows if name == "q" else rows.repeat_interleave(group, 2)

        def by_text(x: torch.Tensor) -> torch.Tensor:
            """Blocks to texts: [N, block, heads, head_dim] to [texts, heads, A, block, head_dim]."""
            whole = x.new_zeros(texts, longest, *x.shape[1:])
            whole = whole.index_put((anchors.text, anchors.place), x)
            return whole.permute(0, 3, 1, 2, 4)

        query = by_text(heads("q", inputs, inside)).float() * size**-0.5
        key, value = (by_text(heads(name, inputs, at)) for name, at in (("k", inside), ("v", None)))
        keys, values = (
            heads(name, context, at).transpose(1, 2) for name, at in (("k", before), ("v", None))
        )
        found = torch.einsum("thabd,thkd->thabk", query, keys.float())
        sees = torch.arange(length) < self.context_ends(anchors)[:, None, :, None, None]
        found = found.masked_fill(~sees, -1e30)
        own = torch.einsum("thabd,thacd->thabc", query, key.float())
        own = own.masked_fill(~self.seen_in_block(), -1e30)
        weights = torch.cat([found, own], dim=-1).softmax(dim=-1).to(value.dtype)
        attended = torch.einsum("thabk,thkd->thabd", weights[..., :length], values)
        attended = attended + torch.einsum("thabc,thacd->thabd", weights[..., length:], value)
        chosen = attended.permute(0, 2, 3, 1, 4)[anchors.text, anchors.place]
        return chosen.flatten(2)

    def block_positions(self, anchors: _Anchors) -> torch.Tensor:
        """Positions of all rows of blocks, int64 [N * block]: the first is its token's own."""
        first = anchors.position[anchors.text, anchors.place]
        return (first[:, None] + torch.arange(self.block)).flatten()

    def context_ends(self, anchors: _Anchors) -> torch.Tensor:
        """Position that each block's context ends before, int64 [texts, A]."""
        return anchors.position

    def seen_in_block(self) -> torch.Tensor:
        """Which rows of a block each of its rows sees, [block, block]: all."""
        return torch.ones(self.block, self.block, dtype=torch.bool)

    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        tensors = {
            "fc.weight": self.fc.weight,
            "hidden_norm.weight": self.hidden_norm,
            "norm.weight": self.norm,
            "mask_embedding": self.mask_embedding,
        }
        for index, layer in enumerate(self._own_layers()):
            tensors |= layer.tensors(f"layers.{index}.")
        values = self.fields(
            architectures=["DFlashDraftModel"],
            model_type="qwen3",
            num_hidden_layers=_LAYERS,
            block_size=self.block,
            num_target_layers=self._config.num_layers,
            dflash_config={"target_layer_ids": list(self.taps)},
        )
        return values, tensors


def _part(level: Level, rows: torch.Tensor) -> Level:
    """Some rows of a level, which no other level continues."""
    return replace(
        level,
        rows=level.rows[rows],
        parents=level.rows[:0],
        top_ids=level.top_ids[rows],
        top_probabilities=level.top_probabilities[rows],
        next_tokens=level.next_tokens[rows],
    )
