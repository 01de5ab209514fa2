"""An EAGLE-3 head as a torch module: one layer over the token's embedding and the target's features.

Layout and arithmetic as in SafeAILab's EAGLE and SpecForge: the layer takes `[embedding, feature]`, both
normalised; the residual is the feature before its norm; what a level hands on is the hidden state before
the last norm. `fc` joins the tapped layers and is only applied to the target's own features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from spectrie.training.batches import Batch, Level
from spectrie.training.kinds.base import Head
from spectrie.training.target import Target

__all__ = ["Eagle3", "default_taps"]

_NEW_STD = 0.02
_MLP_PARTS = ("gate", "up", "down")


def default_taps(num_layers: int) -> tuple[int, ...]:
    """Layers whose outputs are joined, as the published heads take them; fewer in a shallow model."""
    return tuple(sorted({max(tap, 0) for tap in (1, num_layers // 2 - 1, num_layers - 4)}))


class Eagle3(Head):
    """The head. Keys and values of a row are those of its own position; row 0 has no entry."""

    _embedding: torch.Tensor
    _head: torch.Tensor
    _places: torch.Tensor
    _cosines: torch.Tensor
    _sines: torch.Tensor

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
        super().__init__()
        self._config = config = target.config
        self._rope = target.rope
        self.taps = tuple(taps)
        hidden, inner = config.hidden_size, config.intermediate_size
        queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim

        def linear(inputs: int, outputs: int) -> nn.Linear:
            made = nn.Linear(inputs, outputs, bias=False)
            nn.init.normal_(made.weight, std=_NEW_STD)
            return made

        def norm() -> nn.Parameter:
            return nn.Parameter(torch.ones(hidden))

        self.fc = linear(len(taps) * hidden, hidden)
        self.input_layernorm, self.hidden_norm = norm(), norm()
        self.post_attention_layernorm, self.norm = norm(), norm()
        self.q_proj = linear(2 * hidden, queries)
        self.k_proj, self.v_proj = linear(2 * hidden, keys), linear(2 * hidden, keys)
        self.o_proj = linear(queries, hidden)
        self.gate_proj, self.up_proj = linear(hidden, inner), linear(hidden, inner)
        self.down_proj = linear(inner, hidden)
        places = torch.full((config.vocabulary_size,), -1, dtype=torch.int64)
        places[vocabulary] = torch.arange(len(vocabulary))
        cosines, sines = config.rope.tables(config.max_context)
        for name, value in (
            ("vocabulary", vocabulary),
            ("_embedding", target.embedding),
            ("_head", target.head[vocabulary]),
            ("_places", places),
            ("_cosines", cosines),
            ("_sines", sines),
        ):
            self.register_buffer(name, value, persistent=False)
        if warm:
            self._start_from(target)

    @torch.no_grad()
    def _start_from(self, target: Target) -> None:
        """Copies the target's last layer; the deepest tap passes through `fc` unchanged."""
        hidden = self._config.hidden_size
        layer = target.layer(self._config.num_layers - 1)
        self.fc.weight.zero_()
        self.fc.weight[:, -hidden:] = torch.eye(hidden)
        for part in ("q_proj", "k_proj", "v_proj"):
            getattr(self, part).weight[:, hidden:] = layer[f"self_attn.{part}.weight"]
        self.o_proj.weight.copy_(layer["self_attn.o_proj.weight"])
        for part in ("gate_proj", "up_proj", "down_proj"):
            getattr(self, part).weight.copy_(layer[f"mlp.{part}.weight"])
        self.hidden_norm.copy_(layer["input_layernorm.weight"])
        self.post_attention_layernorm.copy_(layer["post_attention_layernorm.weight"])
        self.norm.copy_(target.final_norm)

    def copied(self) -> list[nn.Parameter]:
        """The parameters that a warm start took from the target."""
        whole = (self.o_proj, self.gate_proj, self.up_proj, self.down_proj, self.fc)
        norms = (self.hidden_norm, self.post_attention_layernorm, self.norm)
        return [parameter for product in whole for parameter in product.parameters()] + [*norms]

    def losses(self, batch: Batch) -> list[torch.Tensor]:
        """Cross-entropy with the target's likeliest tokens, summed over the rows of each level.

        Tokens outside the draft vocabulary do not count, so a row counts as much as the head could know.
        """
        return [
            self._loss(level, self.logits(hidden))
            for level, hidden in zip(batch.levels, self.hidden_states(batch), strict=True)
        ]

    def judged(self, batch: Batch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        losses, guesses = [], []
        for level, hidden in zip(batch.levels, self.hidden_states(batch), strict=True):
            logits = self.logits(hidden)
            losses.append(self._loss(level, logits))
            guesses.append(self.vocabulary[logits.argmax(1)])
        return losses, guesses

    def published(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        config = self._config
        products = {
            **{f"self_attn.{part}_proj": getattr(self, f"{part}_proj") for part in "qkvo"},
            **{f"mlp.{part}_proj": getattr(self, f"{part}_proj") for part in _MLP_PARTS},
        }
        norms = ("hidden_norm", "input_layernorm", "post_attention_layernorm")
        known = torch.zeros(config.vocabulary_size, dtype=torch.bool)
        known[self.vocabulary] = True
        tensors = {
            "fc.weight": self.fc.weight,
            **{f"midlayer.{name}.weight": one.weight for name, one in products.items()},
            **{f"midlayer.{name}.weight": getattr(self, name) for name in norms},
            "norm.weight": self.norm,
            "d2t": self.vocabulary - torch.arange(len(self.vocabulary)),
            "t2d": known,
        }
        values = {
            "architectures": ["LlamaForCausalLMEagle3"],
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
            "draft_vocab_size": len(self.vocabulary),
            "attention_bias": False,
            "mlp_bias": False,
            "tie_word_embeddings": False,
            "eagle_config": {
                "use_aux_hidden_state": True,
                "eagle_aux_hidden_state_layer_ids": list(self.taps),
            },
        }
        return values, tensors

    def _loss(self, level: Level, logits: torch.Tensor) -> torch.Tensor:
        places = self._places[level.top_ids]
        known = places >= 0
        shares = level.top_probabilities * known
        named = logits.gather(1, places.clamp(min=0))
        return (shares.sum(1) * logits.logsumexp(1)).sum() - (shares * named).sum()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits over the draft vocabulary: [N, draft vocabulary]."""
        return functional.linear(self._normed(hidden, self.norm), self._head).float()

    def hidden_states(self, batch: Batch) -> Iterator[torch.Tensor]:
        """Yields what each level hands on for its rows, [N, hidden], before the last norm."""
        texts, length = batch.tokens.shape
        positions = torch.arange(length).repeat(texts)
        embedded = self._normed(self._embedding[batch.tokens.flatten()], self.input_layernorm)
        fused = self.fc(batch.features.flatten(0, 1))
        whole = torch.cat([embedded, self._normed(fused, self.hidden_norm)], dim=1)
        keys = self._turned(self.k_proj(whole), positions).view(texts, length, -1)
        values = self.v_proj(whole).view(texts, length, -1)
        own: list[tuple[torch.Tensor, torch.Tensor]] = []
        hidden = fused
        for number, level in enumerate(batch.levels):
            rows = level.rows
            if number == 0:
                feature, inputs = fused[rows], whole[rows]
            else:
                feature = self.handed_on(hidden[level.parents])
                inputs = torch.cat([embedded[rows], self._normed(feature, self.hidden_norm)], dim=1)
                key = self._turned(self.k_proj(inputs), positions[rows])
                own.append(
                    (
                        _spread(key, rows, texts, length),
                        _spread(self.v_proj(inputs), rows, texts, length),
                    )
                )
            query = self._turned(self.q_proj(inputs), positions[rows])
            query = _spread(query, rows, texts, length)
            attended = self._attend(query, keys, values, own).flatten(0, 1)[rows]
            hidden = feature + self.o_proj(attended)
            normed = self._normed(hidden, self.post_attention_layernorm)
            gated = functional.silu(self.gate_proj(normed)) * self.up_proj(normed)
            hidden = hidden + self.down_proj(gated)
            yield hidden

    def handed_on(self, hidden: torch.Tensor) -> torch.Tensor:
        """What takes the place of a fused feature at later levels: the parent's hidden state as it is."""
        return hidden

    def _attend(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        own: Sequence[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """Attends from row `p` of a level to the true entries 1 .. `p - level`, then to the level's own
        chain of guessed entries; all [texts, T, width]."""
        config = self._config
        texts, length = query.shape[:2]
        level, group = len(own), config.num_heads // config.num_kv_heads

        def heads(x: torch.Tensor) -> torch.Tensor:
            return x.view(texts, length, -1, config.head_dim).transpose(1, 2)

        def shared(x: torch.Tensor) -> torch.Tensor:
            return heads(x).repeat_interleave(group, 1)

        asked = heads(query) * config.head_dim**-0.5
        rows = torch.arange(length)
        sees = (rows[None, :] >= 1) & (rows[None, :] <= rows[:, None] - level)
        scores = asked @ shared(keys).transpose(2, 3)
        parts = [scores.float().masked_fill(~sees, float("-inf"))]
        chain = []
        for number, (key, value) in enumerate(own, 1):
            # Entry of level `number` on the path to row p: at row p - (level - number).
            back = level - number
            parts.append((asked * shared(key.roll(back, 1))).sum(-1, keepdim=True).float())
            chain.append(shared(value.roll(back, 1)))
        # Rows that see nothing are never read; they must not become NaN.
        weights = torch.cat(parts, dim=-1).clamp(min=-1e30).softmax(dim=-1)
        found = weights[..., :length].to(values.dtype) @ shared(values)
        for number, value in enumerate(chain):
            found = found + weights[..., length + number, None].to(value.dtype) * value
        return found.transpose(1, 2).reshape(texts, length, -1)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x = x.float()
        mean = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean + self._config.norm_epsilon) * weight

    def _turned(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Applies rotary embedding to [N, heads * head_dim]."""
        half = self._config.rope.rotated // 2
        heads = x.view(len(x), -1, self._config.head_dim)
        cosines = self._cosines[positions][:, None, :].to(x.dtype)
        sines = self._sines[positions][:, None, :].to(x.dtype)
        low, high, rest = heads[..., :half], heads[..., half : 2 * half], heads[..., 2 * half :]
        turned = [low * cosines - high * sines, high * cosines + low * sines, rest]
        return torch.cat(turned, dim=-1).flatten(1)


def _spread(x: torch.Tensor, rows: torch.Tensor, texts: int, length: int) -> torch.Tensor:
    """Puts [N, width] at their rows of [texts, T, width], zeros elsewhere."""
    whole = x.new_zeros(texts * length, x.shape[1])
    return whole.index_copy(0, rows, x).view(texts, length, -1)
