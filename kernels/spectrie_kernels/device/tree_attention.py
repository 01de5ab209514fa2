"""Tree attention as Triton kernels: split-KV over pages, then one combine.

Sources:
1. Dao et al., Flash-Decoding, 2023: split keys, combine by log-sum-exp.
2. Yao et al., DeFT, arXiv 2404.00242: load each key block once for all queries that see it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spectrie_kernels.layout import TreeLayout

__all__ = ["MAX_SPLITS", "MIN_SPLIT_TOKENS", "split_tokens", "tree_attention"]

# A split covers 256 keys, twice that for each doubling beyond 8192: partial results stay bounded
# and the boundaries depend on the request's own length alone, never on the rest of the batch.
MIN_SPLIT_TOKENS = 256
MAX_SPLITS = 32


@triton.jit
def _split_kernel(
    query,
    key_cache,
    value_cache,
    partial,
    partial_max,
    partial_sum,
    row_ancestors,
    request_row_start,
    request_row_count,
    request_kv_len,
    request_kind,
    request_split,
    page_indptr,
    page_ids,
    block_request,
    block_first,
    scale_log2,
    num_rows,
    GROUP: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """One block of rows of one request, one key-value head, one split of its keys.

    For each row r: m = max_k s_rk, l = sum_k 2^(s_rk - m), o = sum_k 2^(s_rk - m) v_k over the
    visible keys k of the split, with s = (q . k) * scale * log2(e). Tile row i is node i // GROUP,
    query head i % GROUP of the group: a node's ancestor word serves GROUP consecutive tile rows.

    query [rows, KV_HEADS * GROUP, HEAD_DIM]; caches [slots, KV_HEADS, HEAD_DIM];
    partial [splits, rows, heads, HEAD_DIM], partial_max and partial_sum [splits, rows, heads].
    """
    block = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    request = tl.load(block_request + block)
    count = tl.load(request_row_count + request)
    first_node = tl.load(block_first + block)
    kv_len = tl.load(request_kv_len + request)
    length = kv_len + count
    split_size = tl.load(request_split + request)
    begin = split * split_size
    if (first_node >= count) | (begin >= length):
        return
    end = tl.minimum(begin + split_size, length)

    tile = tl.arange(0, BLOCK_ROWS)
    node = first_node + tile // GROUP
    nodes_in_block: tl.constexpr = BLOCK_ROWS // GROUP
    real = (node < count) & (tile < nodes_in_block * GROUP)
    row = (tl.load(request_row_start + request) + node).to(tl.int64)
    head = kv_head * GROUP + tile % GROUP
    dims = tl.arange(0, BLOCK_DIM)
    in_dim = dims < HEAD_DIM
    heads: tl.constexpr = KV_HEADS * GROUP

    q_at = query + (row * heads + head)[:, None] * HEAD_DIM + dims[None, :]
    q = tl.load(q_at, mask=real[:, None] & in_dim[None, :], other=0.0)
    word = tl.load(row_ancestors + row, mask=real, other=0)
    is_chunk = tl.load(request_kind + request) == 0
    pages = page_ids + tl.load(page_indptr + request)

    # A finite floor instead of -inf: a row that sees nothing here keeps m = floor and l = 0.
    best = tl.full((BLOCK_ROWS,), -1.0e20, tl.float32)
    total = tl.zeros((BLOCK_ROWS,), tl.float32)
    acc = tl.zeros((BLOCK_ROWS, BLOCK_DIM), tl.float32)
    for first in range(begin, end, BLOCK_KEYS):
        index = first + tl.arange(0, BLOCK_KEYS)
        inside = index < end
        page = tl.load(pages + index // PAGE_SIZE, mask=inside, other=0).to(tl.int64)
        slot = page * PAGE_SIZE + index % PAGE_SIZE
        at = (slot * KV_HEADS + kv_head)[:, None] * HEAD_DIM + dims[None, :]
        wanted = inside[:, None] & in_dim[None, :]
        k = tl.load(key_cache + at, mask=wanted, other=0.0)
        v = tl.load(value_cache + at, mask=wanted, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2

        own = index - kv_len
        bit = tl.minimum(tl.maximum(own, 0), 63).to(tl.int64)
        ancestor = ((word[:, None] >> bit[None, :]) & 1) != 0
        causal = own[None, :] <= node[:, None]
        seen = (own < 0)[None, :] | tl.where(is_chunk, causal, ancestor)
        seen = seen & inside[None, :] & real[:, None]

        scores = tl.where(seen, scores, -1.0e20)
        larger = tl.maximum(best, tl.max(scores, axis=1))
        weights = tl.where(seen, tl.exp2(scores - larger[:, None]), 0.0)
        shrink = tl.exp2(best - larger)
        total = total * shrink + tl.sum(weights, axis=1)
        acc = acc * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        best = larger

    slot_of = (split * num_rows + row) * heads + head
    tl.store(partial_max + slot_of, best, mask=real)
    tl.store(partial_sum + slot_of, total, mask=real)
    out_at = partial + slot_of[:, None] * HEAD_DIM + dims[None, :]
    tl.store(out_at, acc, mask=real[:, None] & in_dim[None, :])


@triton.jit
def _combine_kernel(
    partial,
    partial_max,
    partial_sum,
    output,
    row_owner,
    request_row_count,
    request_kv_len,
    request_split,
    num_rows,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
):
    """output = (sum_s 2^(m_s - m) o_s) / (sum_s 2^(m_s - m) l_s), splits in ascending order."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    request = tl.load(row_owner + row)
    length = tl.load(request_kv_len + request) + tl.load(request_row_count + request)
    splits = tl.cdiv(length, tl.load(request_split + request))
    dims = tl.arange(0, BLOCK_DIM)
    in_dim = dims < HEAD_DIM
    best = tl.full((), -1.0e20, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    acc = tl.zeros((BLOCK_DIM,), tl.float32)
    for split in range(0, splits):
        at = (split * num_rows + row) * HEADS + head
        split_max = tl.load(partial_max + at)
        split_sum = tl.load(partial_sum + at)
        part = tl.load(partial + at * HEAD_DIM + dims, mask=in_dim, other=0.0)
        larger = tl.maximum(best, split_max)
        shrink = tl.exp2(best - larger)
        grow = tl.exp2(split_max - larger)
        total = total * shrink + split_sum * grow
        acc = acc * shrink + part * grow
        best = larger
    result = (acc / total).to(output.dtype.element_ty)
    tl.store(output + (row * HEADS + head) * HEAD_DIM + dims, result, mask=in_dim)


def split_tokens(lengths: torch.Tensor) -> torch.Tensor:
    """Keys a split covers for each request: [requests] int32, a step function of its length alone."""
    size = torch.full_like(lengths, MIN_SPLIT_TOKENS)
    for _ in range(16):
        size = torch.where(size * MAX_SPLITS < lengths, size * 2, size)
    return size


def _row_blocks(layout: TreeLayout, nodes_per_block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Request and first node of each block of rows, without waiting for the device.

    The number of blocks is bounded from shapes alone; blocks too many point past a request's rows
    and their programs return at once.
    """
    counts = layout.request_row_count
    requests = counts.shape[0]
    bound = layout.row_owner.shape[0] // nodes_per_block + requests
    blocks = (counts + nodes_per_block - 1) // nodes_per_block
    ends = torch.cumsum(blocks, 0, dtype=torch.int32)
    ids = torch.arange(bound, dtype=torch.int32, device=counts.device)
    request = torch.searchsorted(ends, ids, right=True).clamp_max(requests - 1)
    first = (ids - (ends - blocks)[request]) * nodes_per_block
    return request.to(torch.int32), first.to(torch.int32)


def tree_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    layout: TreeLayout,
    scale: float,
) -> torch.Tensor:
    """See `spectrie_kernels.tree_attention`."""
    rows, heads, head_dim = query.shape
    if query.dtype == torch.bfloat16 and not query.is_cuda:
        # The interpreter multiplies the raw bits of bfloat16 operands; float32 holds them exactly.
        keys, values = key_cache.float(), value_cache.float()
        return tree_attention(query.float(), keys, values, layout, scale).to(torch.bfloat16)
    output = torch.empty_like(query)
    if rows == 0:
        return output
    query, key_cache, value_cache = (one.contiguous() for one in (query, key_cache, value_cache))
    kv_heads = key_cache.shape[1]
    group = heads // kv_heads
    block_rows = max(16, triton.next_power_of_2(group))
    longest = max(1, min(64, rows)) * group
    while block_rows < 64 and block_rows < longest:
        block_rows *= 2
    block_request, block_first = _row_blocks(layout, block_rows // group)
    lengths = layout.request_kv_len + layout.request_row_count
    request_split = split_tokens(lengths)
    splits = min(MAX_SPLITS, triton.cdiv(layout.max_length, MIN_SPLIT_TOKENS))
    partial = query.new_empty((splits, rows, heads, head_dim), dtype=torch.float32)
    partial_max = partial.new_empty((splits, rows, heads))
    partial_sum = partial.new_empty((splits, rows, heads))
    block_dim = max(16, triton.next_power_of_2(head_dim))
    _split_kernel[(block_request.shape[0], kv_heads, splits)](
        query,
        key_cache,
        value_cache,
        partial,
        partial_max,
        partial_sum,
        layout.row_ancestors,
        layout.request_row_start,
        layout.request_row_count,
        layout.request_kv_len,
        layout.request_kind,
        request_split,
        layout.page_indptr,
        layout.page_ids,
        block_request,
        block_first,
        scale * 1.4426950408889634,
        rows,
        GROUP=group,
        KV_HEADS=kv_heads,
        HEAD_DIM=head_dim,
        PAGE_SIZE=layout.page_size,
        BLOCK_ROWS=block_rows,
        BLOCK_KEYS=64,
        BLOCK_DIM=block_dim,
    )
    _combine_kernel[(rows, heads)](
        partial,
        partial_max,
        partial_sum,
        output,
        layout.row_owner,
        layout.request_row_count,
        layout.request_kv_len,
        request_split,
        rows,
        HEADS=heads,
        HEAD_DIM=head_dim,
        BLOCK_DIM=block_dim,
    )
    return output
