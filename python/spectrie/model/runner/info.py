"""Facts about a loaded model, and what reading its cache costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ContextCost", "RunnerInfo"]


@dataclass(frozen=True, slots=True)
class ContextCost:
    """What reading the cache adds to a forward.

    Attributes:
        context_tokens: Cached tokens of each row in the forwards of `measure_costs`.
        ms_per_key: Milliseconds for each row and cached token.
        ms_per_read: Milliseconds for each cached token, once for all rows of a tile.
        tile_rows: Rows of a request that read its cached tokens together.
        stair_rows: Forwards of up to so many rows take as long as the next that was timed; 0 where each row
            counts.
    """

    context_tokens: int
    ms_per_key: float
    ms_per_read: float
    tile_rows: int
    stair_rows: int = 0


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    """Facts about a loaded model.

    Attributes:
        bigram_prefix: Returns the ids of the shortest text that anything can follow.
        kv_bytes: Size of the key-value cache; memory is allocated as pages are used.
        arithmetic: Everything that the bits of a logit depend on, besides the preceding tokens.
        exact: Whether a row's logits are independent of the other rows in the batch, bit by bit, so
            that equal requests and seeds get equal answers, with and without drafts.
        can_speculate: Whether drafts may be verified: every token is the model's own draw, `exact` or
            not.
        ranks: Processes that share the model; they affect times, never bits.
        tile_rows: Rows of a request that read its cached tokens together.
        why_fast: Why the arithmetic is fast where nobody asked for that by name.
    """

    vocabulary_size: int
    eos_token_ids: list[int]
    bigram_prefix: Callable[[], list[int]]
    max_context: int
    num_pages: int
    page_size: int
    max_batch_rows: int
    kv_bytes: int
    dtype_name: str
    device_name: str
    model_hash: str
    arithmetic: str
    exact: bool
    can_speculate: bool
    ranks: int = 1
    tile_rows: int = 1
    why_fast: str | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes the forward."""
        return self.device_name != "cpu"
