"""The arrays of one step: the plan a runner computes, and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

__all__ = [
    "LEFT_OUT",
    "TREE_ROWS",
    "Forward",
    "PlanArrays",
    "RankForward",
    "StepPlan",
    "StepResult",
]

TREE_ROWS = 64
"""Most rows of a tree: a row's ancestors are the bits of a number."""

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]

LEFT_OUT = -2
"""In place of the feature of a request: drafters keep nothing of its rows."""


class PlanArrays(Protocol):
    """The part of a plan that the runner reads; `R` rows, `Q` requests, `S` sample rows, `T` top
    rows, `M` moves.

    Attributes:
        row_token, row_position, row_slot: int32 [R]; the slot is where the row's key is written.
        row_parent: int32 [R], row index within the request, -1 for a root; only in trees.
        row_ancestors: int64 [R], bit j = sees row j of its request, itself included; only in trees.
        request_row_start, request_row_count, request_kv_len: int32 [Q].
        request_kind: int32 [Q], 0 = causal chunk, 1 = tree.
        page_indptr, page_ids: int32 [Q + 1] and [pages], page tables in CSR form.
        sample_rows: int32 [S], rows whose logits are requested, ascending.
        top_rows: int32 [T], rows whose likeliest tokens are requested, ascending: none, or all the
            sample rows and possibly others.
        kv_move_src, kv_move_dst: int32 [M], slots to copy in order before the forward.
    """

    @property
    def row_token(self) -> Int32: ...
    @property
    def row_position(self) -> Int32: ...
    @property
    def row_slot(self) -> Int32: ...
    @property
    def row_parent(self) -> Int32: ...
    @property
    def row_ancestors(self) -> Int64: ...
    @property
    def request_row_start(self) -> Int32: ...
    @property
    def request_row_count(self) -> Int32: ...
    @property
    def request_kv_len(self) -> Int32: ...
    @property
    def request_kind(self) -> Int32: ...
    @property
    def page_indptr(self) -> Int32: ...
    @property
    def page_ids(self) -> Int32: ...
    @property
    def sample_rows(self) -> Int32: ...
    @property
    def top_rows(self) -> Int32: ...
    @property
    def kv_move_src(self) -> Int32: ...
    @property
    def kv_move_dst(self) -> Int32: ...


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A plan built by hand, for measurements and tests. Fields as in `PlanArrays`, and for a drafter:

    Attributes:
        request_feature: int32 [Q], row of the feature store with the feature before each request's first
            row, -1 where it is not known, -2 where drafters keep nothing of the request's rows; or empty.
        request_first: int32 [Q], position of the first token of each request of which drafters keep something; or empty,
            which is 0 for all.
        feature_moves: int32 [M, 2], rows of the last forward and of the store they are copied to.
        feature_copies: int32 [M, 2], rows of the store, source and destination.
    """

    row_token: Int32
    row_position: Int32
    row_slot: Int32
    row_parent: Int32
    row_ancestors: Int64
    request_row_start: Int32
    request_row_count: Int32
    request_kv_len: Int32
    request_kind: Int32
    page_indptr: Int32
    page_ids: Int32
    sample_rows: Int32
    top_rows: Int32
    kv_move_src: Int32
    kv_move_dst: Int32
    request_feature: Int32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    request_first: Int32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    feature_moves: Int32 = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))
    feature_copies: Int32 = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))

    @classmethod
    def single(
        cls,
        tokens: Sequence[int],
        *,
        kv_len: int,
        pages: Sequence[int],
        parents: Sequence[int] | None = None,
        sample_rows: Sequence[int] | None = None,
        top_rows: Sequence[int] = (),
        moves: Sequence[tuple[int, int]] = (),
        feature: int = -1,
        first: int = 0,
        feature_moves: Sequence[tuple[int, int]] = (),
        feature_copies: Sequence[tuple[int, int]] = (),
        page_size: int = 16,
    ) -> StepPlan:
        """Returns a plan of one request.

        Args:
            tokens: One per row.
            kv_len: Tokens already in the cache.
            pages: The request's page table.
            parents: Parent of each row, for a tree; None for a causal chunk.
            sample_rows: All rows by default.
            top_rows: Rows whose likeliest tokens are requested; none by default.
            moves: Pairs of slots, source and destination.
            feature: Row of the feature store before the first row.
            first: Position of the first token of which drafters keep something.
            feature_moves: Rows of the last forward and of the store.
            feature_copies: Rows of the store.
            page_size: Slots of a page.
        """
        rows = range(len(tokens))
        ancestors = [1 << row if parents else 0 for row in rows]
        depths = list(rows)
        if parents is not None:
            for row, parent in enumerate(parents):
                ancestors[row] |= ancestors[parent] if parent >= 0 else 0
                depths[row] = depths[parent] + 1 if parent >= 0 else 0
        logical = [kv_len + row for row in rows]
        slots = [pages[i // page_size] * page_size + i % page_size for i in logical]

        def int32(values: Sequence[int]) -> Int32:
            return np.array(values, dtype=np.int32)

        def pairs(values: Sequence[tuple[int, int]]) -> Int32:
            return np.array(values, dtype=np.int32).reshape(-1, 2)

        return cls(
            row_token=int32(tokens),
            row_position=int32([kv_len + depth for depth in depths]),
            row_slot=int32(slots),
            row_parent=int32(parents if parents is not None else [row - 1 for row in rows]),
            row_ancestors=np.array(ancestors, dtype=np.uint64).astype(np.int64),
            request_row_start=int32([0]),
            request_row_count=int32([len(tokens)]),
            request_kv_len=int32([kv_len]),
            request_kind=int32([0 if parents is None else 1]),
            page_indptr=int32([0, len(pages)]),
            page_ids=int32(pages),
            sample_rows=int32(list(rows) if sample_rows is None else sample_rows),
            top_rows=int32(top_rows),
            kv_move_src=int32([move[0] for move in moves]),
            kv_move_dst=int32([move[1] for move in moves]),
            request_feature=int32([feature]),
            request_first=int32([first]),
            feature_moves=pairs(feature_moves),
            feature_copies=pairs(feature_copies),
        )

    @classmethod
    def of_moves(cls, sources: Int32, destinations: Int32) -> StepPlan:
        """Returns a plan without rows, whose forward copies slots and computes nothing.

        Args:
            sources: int32 [M], slots.
            destinations: int32 [M], slots.
        """
        none = np.zeros(0, dtype=np.int32)
        return cls(
            row_token=none,
            row_position=none,
            row_slot=none,
            row_parent=none,
            row_ancestors=np.zeros(0, dtype=np.int64),
            request_row_start=none,
            request_row_count=none,
            request_kv_len=none,
            request_kind=none,
            page_indptr=np.zeros(1, dtype=np.int32),
            page_ids=none,
            sample_rows=none,
            top_rows=none,
            kv_move_src=sources,
            kv_move_dst=destinations,
        )

    @classmethod
    def joined(cls, plans: Sequence[StepPlan]) -> StepPlan:
        """Concatenates plans into one, with their requests in order."""
        starts = np.cumsum([0] + [len(plan.row_token) for plan in plans]).tolist()
        page_starts = np.cumsum([0] + [len(plan.page_ids) for plan in plans]).tolist()

        def shifted(name: str, by: Sequence[int]) -> Int32:
            parts: list[Int32] = [
                getattr(plan, name) + shift for plan, shift in zip(plans, by, strict=False)
            ]
            return np.concatenate(parts).astype(np.int32)

        def all_of(name: str) -> Int32:
            return shifted(name, [0] * len(plans))

        indptr = [np.zeros(1)] + [
            plan.page_indptr[1:] + shift for plan, shift in zip(plans, page_starts, strict=False)
        ]
        return cls(
            row_token=all_of("row_token"),
            row_position=all_of("row_position"),
            row_slot=all_of("row_slot"),
            row_parent=all_of("row_parent"),
            row_ancestors=np.concatenate([plan.row_ancestors for plan in plans]),
            request_row_start=shifted("request_row_start", starts),
            request_row_count=all_of("request_row_count"),
            request_kv_len=all_of("request_kv_len"),
            request_kind=all_of("request_kind"),
            page_indptr=np.concatenate(indptr).astype(np.int32),
            page_ids=all_of("page_ids"),
            sample_rows=shifted("sample_rows", starts),
            top_rows=shifted("top_rows", starts),
            kv_move_src=all_of("kv_move_src"),
            kv_move_dst=all_of("kv_move_dst"),
            request_feature=all_of("request_feature"),
            request_first=all_of("request_first"),
            feature_moves=all_of("feature_moves"),
            feature_copies=all_of("feature_copies"),
        )


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a forward; `S` sample rows, `T` top rows.

    Attributes:
        stored: The logits, float32 [S, vocabulary], contiguous: an array, or a tensor of torch, which may be
            on a device; valid until the next forward. Where tokens were wanted, only the rows whose logits were asked for too.
        top_ids: int32 [T, 8], likeliest first, -1 for a missing entry.
        top_probabilities: float32 [T, 8], of the plain softmax.
        tokens: int32 [S], a token of each sample row, -1 if no largest logit is finite: the drawn one
            where that was wanted (-2 if the request's options leave none), else the likeliest (the
            smallest id on a tie). None if the forward does not compute it.
        compacted: Whether accepted rows of trees are in their places: of requests whose tokens the forward
            gives, it has walked along them.
    """

    stored: Float32 | torch.Tensor
    top_ids: Int32
    top_probabilities: Float32
    tokens: Int32 | None = None
    compacted: bool = False

    @property
    def logits(self) -> torch.Tensor:
        """The logits as a tensor, on the device or on the host."""
        if isinstance(self.stored, np.ndarray):
            import torch

            return torch.from_numpy(self.stored)
        return self.stored

    def on_host(self) -> Float32:
        """Returns the logits in memory of the host; waits for a device that computes them."""
        if isinstance(self.stored, np.ndarray):
            return self.stored
        copied: Float32 = self.stored.cpu().numpy()
        return copied


class Forward(Protocol):
    """A decoder with its cache."""

    def forward(self, plan: PlanArrays, /) -> StepResult: ...
    def set_threads(self, threads: int, /) -> None: ...


class RankForward(Forward, Protocol):
    """A rank's part of a decoder."""

    def begin(self, plan: PlanArrays, /) -> Callable[[], StepResult]:
        """Like `forward`, but does not wait for a device that may itself wait for other ranks: what it
        returns does, and reads the result."""
        ...
