"""Which walks of a step lead to the first rows of drafts, and which rows of a first level these are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrie.model.drafters.plan import DraftPlan
from spectrie.model.plan import LEFT_OUT, PlanArrays
from spectrie_kernels import MAX_TREE_ROWS, ROOT_WORDS

__all__ = ["StepWalks"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


class StepWalks:
    """The walks of a step: one for each request that decodes, or whose prompt ends, and is not left out.

    Args:
        plan: The step.
    """

    def __init__(self, plan: PlanArrays) -> None:
        starts, counts = plan.request_row_start, plan.request_row_count
        is_tree = plan.request_kind == 1
        # Of a chunk, the last row alone gives a token that goes on.
        first = np.where(is_tree, starts, starts + counts - 1)
        rows = np.where(is_tree, counts, 1)
        sample = np.searchsorted(plan.sample_rows, first)
        behind = np.searchsorted(plan.sample_rows, first + rows)
        feature = getattr(plan, "request_feature", np.zeros(0, np.int32))
        is_kept = feature != LEFT_OUT if len(feature) else np.ones(len(counts), np.bool_)
        chosen = is_kept & (counts > 0) & (rows <= MAX_TREE_ROWS) & (behind - sample == rows)
        base = plan.request_kv_len + first - starts
        columns = (first, rows, sample, base, plan.page_indptr[:-1])
        self.words: Int32 = np.stack(columns, axis=1)[chosen].astype(np.int32)
        """int32 [walks, ROOT_WORDS], as `spectrie_kernels.draft_roots` takes them."""
        self._page_ids = plan.page_ids

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def none(cls) -> Int32:
        """Returns the words of no walk."""
        return np.zeros((0, ROOT_WORDS), np.int32)

    def walks_of(
        self, plan: DraftPlan, found: Int32, moves: Int32, store_rows: int
    ) -> Int64 | None:
        """Returns the walk behind which each row of a first level stands, int64 [rows]; None unless all of them stand
        behind one: with its token and position, behind the feature of its last row, over the same pages.

        Args:
            plan: The level.
            found: int32 [walks, 4], what the device found: token, position, row of the step.
            moves: int32 [any, 2], rows of features that are copied before the level; those of the step stand behind
                the store.
            store_rows: Rows of the store.
        """
        if len(plan.kv_move_src):
            # Keys that were not there when the rows were computed.
            return None
        # Which row of the step has the feature that the store will have.
        source = {to: row - store_rows for row, to in moves.tolist()}
        walk_of = {row: walk for walk, row in enumerate(found[:, 2].tolist()) if row >= 0}
        features = plan.request_feature.tolist()
        walks = [walk_of.get(source.get(feature, -1), -1) for feature in features]
        if not all(self._has_pages(plan, index, walk) for index, walk in enumerate(walks)):
            return None
        of_rows: Int64 = np.array(walks, np.int64)[plan.row_request]
        asked = np.stack([plan.row_token, plan.row_position], axis=1)
        return of_rows if np.array_equal(found[of_rows, :2], asked) else None

    def are_behind(self, plan: DraftPlan, walks: Int64, positions: Int64) -> bool:
        """Returns whether rows of a second level lie one behind walks' roots, over the pages of the step.

        Args:
            plan: The level.
            walks: int64 [rows], of each row.
            positions: int64 [walks], of the roots.
        """
        if len(plan.kv_move_src):
            return False
        if not np.array_equal(plan.request_kv_len[plan.row_request], positions[walks]):
            return False
        pairs = set(zip(plan.row_request.tolist(), walks.tolist(), strict=True))
        return all(self._has_pages(plan, request, walk) for request, walk in pairs)

    def _has_pages(self, plan: DraftPlan, request: int, walk: int) -> bool:
        """Whether a request of a level has the pages that it had in the step."""
        if walk < 0:
            return False
        begin, first = int(plan.page_indptr[request]), int(self.words[walk, 4])
        count = int(plan.page_indptr[request + 1]) - begin
        then = self._page_ids[first : first + count]
        return np.array_equal(then, plan.page_ids[begin : begin + count])
