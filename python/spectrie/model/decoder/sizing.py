"""The size of the key-value cache, and of the largest forward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spectrie.errors import ConfigError, ModelError
from spectrie.model.config.model_config import ModelConfig

__all__ = ["BATCH_ROWS", "GPU_BATCH_ROWS", "LOGIT_ROWS", "CacheSize", "pieces", "size_cache"]

BATCH_ROWS = 512
"""Most rows of a forward, by default."""
GPU_BATCH_ROWS = 4096
"""The same on a GPU, which multiplies at its full rate from a few thousand rows on."""
LOGIT_ROWS = 512
"""Rows of a forward on a GPU whose logits are in memory at once: more are computed one piece after the
other."""

# Of the memory that is free after loading, what the cache takes by default; the rest is for draft
# memory, activations and everybody else.
_SHARE = 0.4
# One worker has no use for more full contexts than this.
_MAX_CONTEXTS = 32
# A GPU's memory is for nothing else. What is left of it is at least what `_work_bytes` says.
_GPU_SHARE = 0.9
_GPU_MAX_CONTEXTS = 256
# Captured graphs of a step, and what their launches keep; of a small GPU at most an eighth.
_GRAPH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class CacheSize:
    """Pages and bytes of the cache, and the maximum tokens of a request."""

    num_pages: int
    bytes: int
    max_context: int


def pieces(rows: int, most: int = LOGIT_ROWS) -> Iterator[slice]:
    """Yields the rows of each piece of a head over `rows` rows."""
    for begin in range(0, rows, most):
        yield slice(begin, min(begin + most, rows))


def size_cache(
    config: ModelConfig,
    *,
    itemsize: int,
    page_size: int,
    num_pages: int | None,
    memory_bytes: int | None,
    max_context: int | None,
    available_bytes: int,
    on_gpu: bool = False,
    batch_rows: int = GPU_BATCH_ROWS,
    extra_page_bytes: int = 0,
    ranks: int = 1,
) -> CacheSize:
    """Returns the cache's size, from the options or the available memory.

    Args:
        config: The model.
        itemsize: Bytes of a cached number.
        page_size: Slots of a page.
        num_pages: Pages; takes precedence over `memory_bytes`.
        memory_bytes: Size in bytes; by default 40 % of `available_bytes`, at most 32 full contexts; on
            a GPU 90 % of what graphs leave, or what the largest forward does not need, at most 256.
        max_context: Maximum prompt plus answer, in tokens; by default the model's limit, or what fits
            the cache.
        available_bytes: Available memory, once the weights are loaded.
        on_gpu: Whether that is a GPU's.
        batch_rows: Most rows of a forward.
        extra_page_bytes: What a page takes besides the model's keys and values.
        ranks: How many share the model; the other sizes are those of all together.

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
    page_bytes += extra_page_bytes
    context = max_context or config.max_context
    if num_pages is None:
        limit = memory_bytes
        if limit is None and on_gpu:
            work = ranks * _work_bytes(config, itemsize, batch_rows, ranks)
            limit = _free_on_gpu(available_bytes, work)
        elif limit is None:
            limit = int(available_bytes * _SHARE)
        pages_per_context = -(-context // page_size)
        num_pages = limit // page_bytes
        if memory_bytes is None:
            contexts = _GPU_MAX_CONTEXTS if on_gpu else _MAX_CONTEXTS
            num_pages = min(num_pages, contexts * pages_per_context)
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


def _free_on_gpu(available_bytes: int, work_bytes: int) -> int:
    """Returns the bytes of a GPU that the cache takes by default."""
    left = available_bytes - min(_GRAPH_BYTES, available_bytes // 8)
    return max(0, min(int(left * _GPU_SHARE), left - work_bytes))


def _work_bytes(config: ModelConfig, itemsize: int, rows: int, ranks: int = 1) -> int:
    """Returns the memory that results of a forward of so many rows take on a GPU, at most."""
    from spectrie_kernels import KeyOrder

    inner = 3 * config.intermediate_size
    if mixture := config.mixture:
        # Every choice of a row has gate and up, one of both, and then a result.
        chosen, width = mixture.num_chosen, mixture.intermediate_size
        inner = max(inner, chosen * (3 * width), chosen * (width + config.hidden_size))
    heads = 2 * (config.num_heads + config.num_kv_heads) * config.head_dim
    # The stream and what is added to it are float32; gate and up become one.
    stream = config.hidden_size * (4 + 4 + itemsize)
    if ranks > 1:
        # What each rank gives of a sum, and what was read of it last.
        stream += 2 * ranks * config.hidden_size * 4
    # Of each row that is not a prompt's, in each part of its keys: a sum of values, a weight and a maximum.
    orders = [KeyOrder.of(config.num_kv_heads, window) for window in set(config.layer_windows)]
    parts = max(order.max_parts for order in orders) + 1
    attention = parts * config.num_heads * (config.head_dim + 2) * 4
    # The sampler's scores are beside the logits.
    logits = 2 * min(rows, LOGIT_ROWS) * config.vocabulary_size * 4
    return rows * (stream + (heads + inner) * itemsize + attention) + logits
