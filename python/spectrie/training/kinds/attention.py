"""Attention of a draft's rows to the text before it and to the rows of its own levels."""

from __future__ import annotations

import torch

from spectrie.model.config.model_config import ModelConfig

__all__ = ["Attention"]


class Attention:
    """Keys and values of one layer, a level behind the other, at the rows of a batch.

    A row `p` of a level sees the text's entries 1 .. `p - level`, then those of its own chain: at row `p - 1` of the
    level before, and so on. Row 0 has no entry.
    """

    def __init__(self, config: ModelConfig, texts: int, length: int) -> None:
        """For a batch of `texts` texts of `length` rows, of a head with the sizes of its target's layers."""
        self._config, self._texts, self._length = config, texts, length
        self._entries: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, key: torch.Tensor, value: torch.Tensor, rows: torch.Tensor) -> None:
        """Adds the next level's entries, [N, width]; first those of the text, at all rows.

        Args:
            key: Rotated keys.
            value: Values.
            rows: int64 [N], `text * length + position`.
        """
        self._entries.append((self._spread(key, rows), self._spread(value, rows)))

    def attend(self, query: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """What rows of the level that was added last see, [N, width].

        Args:
            query: Rotated queries, [N, width].
            rows: int64 [N], as above.
        """
        config = self._config
        (keys, values), *own = self._entries
        level, group = len(own), config.num_heads // config.num_kv_heads

        def heads(x: torch.Tensor) -> torch.Tensor:
            return x.view(self._texts, self._length, -1, config.head_dim).transpose(1, 2)

        def shared(x: torch.Tensor) -> torch.Tensor:
            return heads(x).repeat_interleave(group, 1)

        asked = heads(self._spread(query, rows)) * config.head_dim**-0.5
        places = torch.arange(self._length)
        sees = (places[None, :] >= 1) & (places[None, :] <= places[:, None] - level)
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
        found = weights[..., : self._length].to(values.dtype) @ shared(values)
        for number, value in enumerate(chain):
            found = found + weights[..., self._length + number, None].to(value.dtype) * value
        return found.transpose(1, 2).reshape(self._texts * self._length, -1)[rows]

    def _spread(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Puts [N, width] at their rows of [texts, length, width], zeros elsewhere."""
        whole = x.new_zeros(self._texts * self._length, x.shape[1])
        return whole.index_copy(0, rows, x).view(self._texts, self._length, -1)
