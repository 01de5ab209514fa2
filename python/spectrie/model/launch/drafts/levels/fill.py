"""Committed tokens whose keys a drafter without features lacks, checked and cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie.model.drafters.plan import DraftPlan
from spectrie.model.launch.drafts.levels.checks import check_indices, refuse
from spectrie.model.launch.drafts.levels.level import Bounds
from spectrie.model.step.input import StepInput
from spectrie_kernels import AttentionLayout, AttentionRows, AttentionTiles

__all__ = ["Fill"]

_PIECE = 1024
"""Tokens that are computed together at most."""


class Fill:
    """The tokens that are made up before a level.

    Args:
        plan: A level, of which all else was checked.
        bounds: What bounds it.

    Raises:
        ValueError: They contradict the level, or are wanted of a drafter that reads features.
    """

    def __init__(self, plan: DraftPlan, bounds: Bounds) -> None:
        self._plan, self._bounds = plan, bounds
        self.count = len(plan.fill_token)
        starts, ends = plan.request_fill_start, plan.fill_indptr
        requests = len(plan.request_kv_len)
        if not self.count and not len(starts) and len(ends) < 2:
            self._segments: list[tuple[int, int, int]] = []
            return
        for what, given, expected in (
            ("request_fill_start", len(starts), requests),
            ("fill_indptr", len(ends), requests + 1),
        ):
            if given != expected:
                raise ValueError(f"{what} has {given} elements, expected {expected}")
        if bounds.store_rows is not None and self.count:
            raise ValueError(
                f"fill_token of a drafter that reads features has {self.count} elements, expected 0"
            )
        check_indices("fill_token", plan.fill_token, bounds.vocabulary)
        counts = np.diff(ends)
        if requests and (ends[0] != 0 or (counts < 0).any() or ends[-1] != self.count):
            raise ValueError(f"fill_token has {self.count} elements, expected {int(ends[-1])}")
        wrong = (starts < 0) | (starts + counts > plan.request_kv_len)
        if wrong.any():
            index = int(np.argmax(wrong))
            limit = plan.request_kv_len[index]
            refuse(
                "request_fill_start",
                index,
                starts[index],
                f"0 or more, and {counts[index]} tokens up to {limit}",
            )
        self._segments = [
            (request, int(starts[request]), int(counts[request]))
            for request in np.flatnonzero(counts).tolist()
        ]

    def pieces(self, tiles: AttentionTiles, device: torch.device) -> Iterator[StepInput]:
        """Yields what the layers take, of up to 1,024 tokens at a time, those of a request in order."""
        piece: list[tuple[int, int, int]] = []
        taken = 0
        for request, start, count in self._segments:
            while count:
                more = min(count, _PIECE - taken)
                piece.append((request, start, more))
                start, count, taken = start + more, count - more, taken + more
                if taken == _PIECE:
                    yield self._piece(piece, tiles, device)
                    piece, taken = [], 0
        if piece:
            yield self._piece(piece, tiles, device)

    def _piece(
        self,
        piece: list[tuple[int, int, int]],
        tiles: AttentionTiles,
        device: torch.device,
    ) -> StepInput:
        plan, shape = self._plan, self._bounds.shape
        counts = np.array([count for _, _, count in piece], np.int32)
        starts = np.array([start for _, start, _ in piece], np.int32)
        requests = np.array([request for request, _, _ in piece], np.int64)
        pages = plan.page_indptr[requests]
        rows = AttentionRows(
            row_ancestors=np.zeros(int(counts.sum()), np.int64),
            request_row_start=(np.cumsum(counts) - counts).astype(np.int32),
            request_row_count=counts,
            request_kv_len=starts,
            request_kind=np.zeros(len(piece), np.int32),
            page_indptr=np.append(pages, len(plan.page_ids)).astype(np.int32),
            page_ids=plan.page_ids,
            page_size=shape.page_size,
        )
        positions = rows.positions()
        slots = rows.slots(rows.owner, positions)
        first = plan.request_fill_start[requests]
        at = plan.fill_indptr[requests] + starts - first
        tokens = plan.fill_token[
            np.repeat(at - rows.request_row_start, counts) + np.arange(len(slots))
        ]
        tokens = np.where(tokens < self._bounds.embedded, tokens, -1)
        layout = AttentionLayout.of(
            rows,
            group=shape.group,
            kv_heads=shape.kv_heads,
            tiles=tiles,
            windows=shape.windows,
            device=device,
        )
        columns: NDArray[np.int32] = np.concatenate([tokens, slots, [0]]).astype(np.int32)
        words = torch.from_numpy(columns).to(device)
        count = len(slots)
        moves = words.new_zeros(0, 2)
        return StepInput(
            words[:count], layout.row_position, words[count:-1], moves, words[-1:], layout
        )
