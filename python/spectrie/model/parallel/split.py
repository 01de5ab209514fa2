"""The output features of each product that a rank computes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spectrie.errors import ConfigError
from spectrie.model.config.model_config import ModelConfig

__all__ = ["Share", "Split", "with_all_heads"]


@dataclass(frozen=True, slots=True)
class Share:
    """Adjacent columns or rows of `total`: `count` of them, starting at `first`."""

    first: int
    count: int
    total: int

    @classmethod
    def of(cls, total: int, rank: int, size: int) -> Share:
        """Returns the share of `rank` in `total` among `size` ranks; shares differ by at most one."""
        first = total * rank // size
        return cls(first, total * (rank + 1) // size - first, total)

    def times(self, width: int) -> Share:
        """Returns the same share if each column consists of `width` columns."""
        return Share(self.first * width, self.count * width, self.total * width)

    def is_even(self, ranks: int) -> bool:
        """Whether all of so many ranks have as much, which each finds alike."""
        return self.count * ranks == self.total

    @property
    def columns(self) -> slice:
        """The share as a slice."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Split:
    """One rank's part of a model.

    Attributes:
        heads: Query heads.
        kv_heads: Key-value heads; with more ranks than heads, several ranks hold the same one.
        hidden: Features of the output and the down projection.
        inner: Features of gate and of up.
        expert: Features of gate and of up of each expert; empty without mixtures.
        vocabulary: Tokens of the head.
        ranks: How many ranks share the model.
    """

    heads: Share
    kv_heads: Share
    hidden: Share
    inner: Share
    expert: Share
    vocabulary: Share
    ranks: int

    @classmethod
    def of(cls, config: ModelConfig, rank: int, size: int) -> Split:
        """Returns the part of `rank` among `size` ranks.

        Raises:
            ConfigError: The heads cannot be divided among that many ranks.
        """
        kv_heads, mixture = _kv_heads(config, rank, size), config.mixture
        group = config.num_heads // config.num_kv_heads
        if size <= config.num_kv_heads:
            heads = kv_heads.times(group)
        else:
            heads = Share.of(config.num_heads, rank, size)
        return cls(
            heads=heads,
            kv_heads=kv_heads,
            hidden=Share.of(config.hidden_size, rank, size),
            inner=Share.of(config.intermediate_size, rank, size),
            expert=Share.of(mixture.intermediate_size if mixture else 0, rank, size),
            vocabulary=Share.of(config.vocabulary_size, rank, size),
            ranks=size,
        )

    def local(self, config: ModelConfig) -> ModelConfig:
        """Returns the model's configuration with this rank's heads only."""
        return replace(config, num_heads=self.heads.count, num_kv_heads=self.kv_heads.count)


def with_all_heads(config: ModelConfig, size: int) -> ModelConfig:
    """Returns `config` with as many key-value heads as the caches of all ranks hold together."""
    heads = sum(Split.of(config, rank, size).kv_heads.count for rank in range(size))
    return replace(config, num_kv_heads=heads)


def _kv_heads(config: ModelConfig, rank: int, size: int) -> Share:
    total = config.num_kv_heads
    if size <= total:
        return Share.of(total, rank, size)
    ranks_per_head, rest = divmod(size, total)
    if rest or config.num_heads % size:
        allowed = [
            count
            for count in range(total + 1, config.num_heads + 1)
            if count % total == 0 and config.num_heads % count == 0
        ]
        raise ConfigError(
            f"tensor_parallel is {size}; {config.num_heads} heads over {total} key-value heads can be "
            f"divided among 1 to {total} ranks" + "".join(f", or {count}" for count in allowed)
        )
    return Share(rank // ranks_per_head, 1, total)
