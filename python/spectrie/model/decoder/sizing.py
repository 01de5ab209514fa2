"""The size of the key-value cache."""

from __future__ import annotations

from dataclasses import dataclass

from spectrie.errors import ConfigError, ModelError
from spectrie.model.config.model_config import ModelConfig

__all__ = ["CacheSize", "size_cache"]

# Of the memory that is free after loading, what the cache takes by default; the rest is for draft
# memory, activations and everybody else.
_SHARE = 0.4
# One worker has no use for more full contexts than this.
_MAX_CONTEXTS = 32


@dataclass(frozen=True, slots=True)
class CacheSize:
    """Pages and bytes of the cache, and the maximum tokens of a request."""

    num_pages: int
    bytes: int
    max_context: int


def size_cache(
    config: ModelConfig,
    *,
    itemsize: int,
    page_size: int,
    num_pages: int | None,
    memory_bytes: int | None,
    max_context: int | None,
    available_bytes: int,
) -> CacheSize:
    """Returns the cache's size, from the options or the available memory.

    Args:
        config: The model.
        itemsize: Bytes of a cached number.
        page_size: Slots of a page.
        num_pages: Pages; takes precedence over `memory_bytes`.
        memory_bytes: Size in bytes; by default 40 % of `available_bytes`, at most 32 full contexts.
        max_context: Maximum prompt plus answer, in tokens; by default the model's limit, or what fits
            the cache.
        available_bytes: Available memory.

    Raises:
        ConfigError: A limit is out of range, or the cache is too small for it.
        ModelError: There is not enough memory for a useful cache.
    """
    if max_context is not None and not 1 <= max_context <= config.max_context:
        raise ConfigError(
            f"max_context is {max_context}; allowed for this model: 1 to {config.max_context}"
        )
    width = -(-config.head_dim // 16) * 16
    page_bytes = 2 * config.num_layers * config.num_kv_heads * width * itemsize * page_size
    context = max_context or config.max_context
    if num_pages is None:
        limit = int(available_bytes * _SHARE) if memory_bytes is None else memory_bytes
        pages_per_context = -(-context // page_size)
        num_pages = limit // page_bytes
        if memory_bytes is None:
            num_pages = min(num_pages, _MAX_CONTEXTS * pages_per_context)
    if num_pages < 1:
        needed = f"one page takes {page_bytes} bytes"
        if memory_bytes is not None:
            raise ConfigError(f"kv_memory_bytes is {memory_bytes}, but {needed}")
        raise ModelError(f"no memory for the key-value cache: {available_bytes} free, {needed}")
    if max_context is not None and num_pages * page_size < max_context:
        raise ConfigError(
            f"a cache of {num_pages} pages holds {num_pages * page_size} tokens, "
            f"expected at least max_context, {max_context}"
        )
    return CacheSize(num_pages, num_pages * page_bytes, min(context, num_pages * page_size))
