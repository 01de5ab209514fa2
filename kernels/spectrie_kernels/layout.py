"""The keys visible to each row of one step: rows, requests and pages."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["TreeLayout"]


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Rows of a step grouped by request, over paged keys and values.

    Logical index p of request q lies in slot
    `page_ids[page_indptr[q] + p // page_size] * page_size + p % page_size`. Row j of request q has
    logical index `kv_len[q] + j`. A chunk row sees logical indices 0..kv_len+j; a tree row sees
    0..kv_len-1 and each row i of its request whose bit i is set in its ancestor word (bit j, its
    own, included).

    Attributes:
        row_owner: [rows] int32, the request of each row; rows of a request are consecutive.
        row_ancestors: [rows] int64, the ancestor word; ignored for chunk rows.
        request_row_start: [requests] int32, first row.
        request_row_count: [requests] int32, number of rows; at most 64 for trees.
        request_kv_len: [requests] int32, keys already in the cache before this step.
        request_kind: [requests] int32, 0 chunk, 1 tree.
        page_indptr: [requests + 1] int32, where each request's pages begin in `page_ids`.
        page_ids: int32, page numbers.
        page_size: Slots in a page, a power of two from 1 to 64.
        max_length: A bound on kv_len + row_count over the requests, known on the host.
    """

    row_owner: torch.Tensor
    row_ancestors: torch.Tensor
    request_row_start: torch.Tensor
    request_row_count: torch.Tensor
    request_kv_len: torch.Tensor
    request_kind: torch.Tensor
    page_indptr: torch.Tensor
    page_ids: torch.Tensor
    page_size: int
    max_length: int

    def __post_init__(self) -> None:
        size = self.page_size
        if size < 1 or size > 64 or size & (size - 1):
            raise ValueError(f"page_size is {size}, expected a power of two from 1 to 64")
        if self.row_ancestors.dtype != torch.int64:
            raise ValueError(f"row_ancestors is {self.row_ancestors.dtype}, expected torch.int64")
        requests = self.request_row_start.shape[0]
        if self.page_indptr.shape[0] != requests + 1:
            raise ValueError(
                f"page_indptr has {self.page_indptr.shape[0]} entries, expected {requests + 1}"
            )
