"""One level of drafts: what a runner's drafter is asked, and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answers", "DraftPlan", "LevelPlan"]

Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]


class DraftPlan(Protocol):
    """One level over all requests; `R` rows, `Q` requests, `M` moves.

    Attributes:
        drafter: Number of the one that is asked; what moves, moves for all.
        level: 1 for the first of a step.
        row_token, row_position: int32 [R]; the first level's rows lie behind the committed tokens.
        row_request: int32 [R], index of the row's request in this plan.
        row_parent: int32 [R], the parent's number among all draft rows of the step; -1 on level 1.
        row_index: Number of the first of these rows among all that this drafter is asked in the step.
        request_kv_len: int32 [Q], committed tokens, at least 1.
        request_feature: int32 [Q], row of the feature store with the last committed token's feature.
        request_first: int32 [Q], position of the first committed token that a request's rows see; on a GPU 0.
        page_indptr, page_ids: int32 [Q + 1] and [pages], page tables in CSR form.
        request_fill_start, fill_indptr, fill_token: int32 [Q], [Q + 1] and [F], committed tokens whose keys are
            made before the rows, from a position on; none for a drafter that reads features.
        scored_indptr, scored_token: int32 [R + 1] and [N], tokens whose log-probability is wanted.
        kv_move_src, kv_move_dst: int32 [M], slots to copy in order, before anything else; the forward that
            follows does not repeat them.
        feature_moves: int32 [M, 2], rows of the last forward and of the store they are copied to, first.
        feature_copies: int32 [M, 2], rows of the store, source and destination, after those.
    """

    @property
    def drafter(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def row_token(self) -> Int32: ...
    @property
    def row_position(self) -> Int32: ...
    @property
    def row_request(self) -> Int32: ...
    @property
    def row_parent(self) -> Int32: ...
    @property
    def row_index(self) -> int: ...
    @property
    def request_kv_len(self) -> Int32: ...
    @property
    def request_feature(self) -> Int32: ...
    @property
    def request_first(self) -> Int32: ...
    @property
    def page_indptr(self) -> Int32: ...
    @property
    def page_ids(self) -> Int32: ...
    @property
    def request_fill_start(self) -> Int32: ...
    @property
    def fill_indptr(self) -> Int32: ...
    @property
    def fill_token(self) -> Int32: ...
    @property
    def scored_indptr(self) -> Int32: ...
    @property
    def scored_token(self) -> Int32: ...
    @property
    def kv_move_src(self) -> Int32: ...
    @property
    def kv_move_dst(self) -> Int32: ...
    @property
    def feature_moves(self) -> Int32: ...
    @property
    def feature_copies(self) -> Int32: ...


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to the rows of a level.

    Attributes:
        ids: int32 [R, 8], likeliest first, -1 for a missing entry.
        probabilities: float32 [R, 8], among all tokens that the drafter can name.
        scored: float32 [N], log-probabilities of the tokens that the plan names; minus infinity for one
            that the drafter cannot name.
    """

    ids: Int32
    probabilities: Float32
    scored: Float32


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """A level built by hand, for measurements and tests. Fields as in `DraftPlan`."""

    level: int
    row_token: Int32
    row_position: Int32
    row_request: Int32
    row_parent: Int32
    row_index: int
    request_kv_len: Int32
    request_feature: Int32
    request_first: Int32
    page_indptr: Int32
    page_ids: Int32
    request_fill_start: Int32
    fill_indptr: Int32
    fill_token: Int32
    scored_indptr: Int32
    scored_token: Int32
    kv_move_src: Int32
    kv_move_dst: Int32
    feature_moves: Int32
    feature_copies: Int32
    drafter: int = 0

    @classmethod
    def of(
        cls,
        requests: Sequence[tuple[int, int, Sequence[int]]],
        rows: Sequence[tuple[int, int, int, int]],
        *,
        level: int = 1,
        row_index: int = 0,
        scored: Sequence[Sequence[int]] | None = None,
        slots: Sequence[tuple[int, int]] = (),
        moves: Sequence[tuple[int, int]] = (),
        copies: Sequence[tuple[int, int]] = (),
        fills: Sequence[tuple[int, Sequence[int]]] | None = None,
        firsts: Sequence[int] | None = None,
        drafter: int = 0,
    ) -> LevelPlan:
        """Returns a level.

        Args:
            requests: Committed tokens, row of the feature store, and page table of each.
            rows: Token, position, request and parent of each.
            level: 1 for the first.
            row_index: Number of the first row.
            scored: For each row the tokens whose log-probability is wanted; none by default.
            slots: Pairs of slots, source and destination.
            moves: Rows of the last forward and of the store.
            copies: Rows of the store.
            fills: For each request the position of the first token whose keys are made, and the tokens from there
                on; none by default.
            firsts: For each request the position of the first token that its rows see; 0 by default.
            drafter: Which one is asked.
        """

        def int32(values: Sequence[int]) -> Int32:
            return np.array(values, dtype=np.int32)

        def pairs(values: Sequence[tuple[int, int]]) -> Int32:
            return np.array(values, dtype=np.int32).reshape(-1, 2)

        scored = [()] * len(rows) if scored is None else scored
        fills = [(0, ())] * len(requests) if fills is None else fills
        firsts = [0] * len(requests) if firsts is None else firsts
        columns = [int32([row[column] for row in rows]) for column in range(4)]
        return cls(
            level=level,
            row_token=columns[0],
            row_position=columns[1],
            row_request=columns[2],
            row_parent=columns[3],
            row_index=row_index,
            request_kv_len=int32([kv_len for kv_len, _, _ in requests]),
            request_feature=int32([feature for _, feature, _ in requests]),
            request_first=int32(firsts),
            page_indptr=int32(_starts([len(pages) for _, _, pages in requests])),
            page_ids=int32([page for _, _, pages in requests for page in pages]),
            request_fill_start=int32([start for start, _ in fills]),
            fill_indptr=int32(_starts([len(tokens) for _, tokens in fills])),
            fill_token=int32([token for _, tokens in fills for token in tokens]),
            scored_indptr=int32(_starts([len(tokens) for tokens in scored])),
            scored_token=int32([token for tokens in scored for token in tokens]),
            kv_move_src=int32([source for source, _ in slots]),
            kv_move_dst=int32([destination for _, destination in slots]),
            feature_moves=pairs(moves),
            feature_copies=pairs(copies),
            drafter=drafter,
        )


def _starts(lengths: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(lengths, dtype=int).tolist()]
