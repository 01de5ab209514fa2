"""A covering set of the launches of serving: every kernel, with the types and constants that it is compiled for."""

from __future__ import annotations

import numpy as np
import torch

import spectrie_kernels
from bench.gpu.models.draws import OPTIONS, draw_rows
from bench.gpu.models.shapes import MODELS, TINY, ModelShape, ProductShape
from bench.gpu.smoke.step_launches import choose_all, launch_step, unpack_all
from spectrie_kernels import (
    AttentionLayout,
    AttentionRows,
    AttentionTiles,
    ExpertWeight,
    ExpertWork,
    LinearTiles,
    LinearWeight,
    PartialSums,
    SumOrder,
)

__all__ = ["launch_all"]

_Device = torch.device | str

_TREE_ROWS = 64
# Of one row, of a few, and of the tree heights above, in multiples of 16 and not; then a prompt's.
_ROWS = (1, 3, 12, 16, 24, 32, 40, 64, 100)
# Of 4, 8, 16 and 32 splits, where a model has so many.
_LENGTHS = (300, 500, 1_000, 2_100)
# One of each number of warps that products take, and of both forms.
_PRODUCT_ROWS = (1, 32, 64, 100)
# Hidden and inner sizes, experts, and those of a row: of Qwen3-30B-A3B, of Mixtral 8x7B, and a tiny one.
_MIXTURES = ((2048, 768, 128, 8), (4096, 14_336, 8, 2))
_TINY_MIXTURE = (64, 32, 5, 2)
# A product of several segments, which the tiny model has none of, but for those that ranks share.
_TINY_SPLIT = ProductShape("split", 64, 1024, bias=True)
# One of each height of their tiles.
_MIXTURE_ROWS = (1, 64, 100, 512, 2048)


def launch_all(models: tuple[ModelShape, ...], small: bool, device: _Device = "cuda") -> None:
    """Launches once each, on whatever tensors hold.

    Args:
        models: Whose kernels.
        small: Whether a few rows and one number format are enough.
        device: Where tensors are; a fake one will do where launches are only noted.
    """
    for model in models:
        # What a GPU serves with, and once each what it can be asked for.
        dtypes = [torch.bfloat16]
        if model == MODELS[0]:
            dtypes += [torch.float16, torch.float32]
        if model == TINY:
            dtypes = [torch.float32] if small else [torch.bfloat16, torch.float32]
        for dtype in dtypes:
            _attend_all(model, dtype, small, device)
            _multiply_all(model, dtype, small, device)
            launch_step(model, dtype, device, windows=(None,))
    if small:
        _multiply(_TINY_SPLIT, 1, torch.float32, device)
    for mixture in (_TINY_MIXTURE,) if small else _MIXTURES:
        for rows in (1, 100) if small else _MIXTURE_ROWS:
            _mix(*mixture, rows, torch.float32 if small else torch.bfloat16, device)
    options = {name: value for one in OPTIONS.values() for name, value in one.items()}
    vocabularies = {model.vocabulary for model in models}
    for vocabulary in sorted(vocabularies):
        logits = torch.empty(4, vocabulary, device=device)
        choose_all(logits)
        if not small:
            spectrie_kernels.row_argmax(logits.bfloat16())
        spectrie_kernels.draw(logits, draw_rows(4, vocabulary, device, options))
    unpack_all(device)
    row = torch.zeros(1, dtype=torch.int32, device=device)
    spectrie_kernels.verify_greedy(row, row, row, row, row)


def _attend_all(model: ModelShape, dtype: torch.dtype, small: bool, device: _Device) -> None:
    heads = (model.heads, model.kv_heads, model.head_dim)
    rows = (1, 16, 100) if small else _ROWS
    for count in rows:
        _attend(count, *heads, dtype, None, device=device)
    for kv_len in () if small else _LENGTHS:
        _attend(1, *heads, dtype, None, kv_len, device=device)
    # A window is a constant of the kernels.
    _attend(rows[0], *heads, dtype, 128, device=device)


def _attend(
    rows: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    window: int | None,
    kv_len: int = 200,
    *,
    device: _Device,
) -> None:
    """A tree of `rows` rows, or a chunk of a prompt where they are more than a tree holds."""
    tree = rows <= _TREE_ROWS
    words = [(2 << row) - 1 if tree else 0 for row in range(rows)]
    pages = np.arange(-(-(kv_len + rows) // 16), dtype=np.int32)
    step = AttentionRows(
        row_ancestors=np.array(words, np.uint64).view(np.int64),
        request_row_start=np.array([0], np.int32),
        request_row_count=np.array([rows], np.int32),
        request_kv_len=np.array([kv_len], np.int32),
        request_kind=np.array([tree], np.int32),
        page_indptr=np.array([0, len(pages)], np.int32),
        page_ids=pages,
        page_size=16,
    )
    layout = AttentionLayout.of(
        step,
        group=heads // kv_heads,
        kv_heads=kv_heads,
        tiles=AttentionTiles.of(head_dim, dtype.itemsize),
        windows=[window],
        device=device,
    )
    query = torch.empty(rows, heads, head_dim, dtype=dtype, device=device)
    cache = torch.empty(16 * len(pages), kv_heads, head_dim, dtype=dtype, device=device)
    spectrie_kernels.tree_attention(query, cache, cache, layout, head_dim**-0.5, window=window)


def _multiply_all(model: ModelShape, dtype: torch.dtype, small: bool, device: _Device) -> None:
    """What exact arithmetic launches: products, and the norms that finish some of them."""
    products = model.products[:2] if small else model.products
    for product in products:
        for rows in (1, 100) if small else _PRODUCT_ROWS:
            _multiply(product, rows, dtype, device)
    for features in (model.hidden, model.head_dim):
        residual = torch.empty(4, features, device=device)
        weight = torch.empty(features, device=device)
        for out in (residual, residual.to(dtype)):
            spectrie_kernels.add_norm(residual, None, weight, 1e-5, out)


def _multiply(product: ProductShape, rows: int, dtype: torch.dtype, device: _Device) -> None:
    shape = (product.out_features, product.in_features)
    values = torch.empty(shape, dtype=dtype, device=device)
    bias = values.new_empty(shape[0]) if product.bias else None
    weight = LinearWeight(values, product.order, bias)
    x = values.new_empty(rows, product.in_features)
    if not product.row_parallel:
        out = torch.float32 if product.name == "head" else dtype
        spectrie_kernels.linear(x, weight, x.new_empty(rows, shape[0], dtype=out))
        return
    sums = spectrie_kernels.linear_sums(x, weight)
    residual = torch.empty(rows, shape[0], device=device)
    norm = torch.empty(shape[0], device=device)
    spectrie_kernels.add_norm(residual, PartialSums(sums.values), norm, 1e-5, residual.to(dtype))


def _mix(
    hidden: int,
    inner: int,
    experts: int,
    chosen: int,
    rows: int,
    dtype: torch.dtype,
    device: _Device,
) -> None:
    """A mixture of experts, from the scores to the sum."""
    x = torch.empty(rows, hidden, dtype=dtype, device=device)
    router = LinearWeight(torch.empty(experts, hidden, device=device), SumOrder.of(experts, hidden))
    scores = spectrie_kernels.linear_sums(x, router, tiles=LinearTiles.of(rows, router.order, 4))
    # Rows that stand for none: what memory holds chooses no expert.
    tokens = torch.full((rows,), -1, dtype=torch.int32, device=device)
    ids = torch.empty(rows, chosen, dtype=torch.int32, device=device)
    shares = torch.empty(rows, chosen, device=device)
    for normalised in (True, False):
        spectrie_kernels.choose_experts(scores, tokens, ids, shares, normalised=normalised)
    words = ExpertWork.words(rows, experts, chosen)
    work = ExpertWork.within(
        torch.empty(words, dtype=torch.int32, device=device),
        rows=rows,
        num_experts=experts,
        num_chosen=chosen,
        element_bytes=dtype.itemsize,
    )
    spectrie_kernels.group_choices(ids, work)
    results = x
    for out_features, in_features in ((2 * inner, hidden), (hidden, inner)):
        values = torch.empty(experts, out_features, in_features, dtype=dtype, device=device)
        order = ExpertWeight.order_of(out_features, in_features, chosen)
        out = x.new_empty(rows * chosen, out_features)
        spectrie_kernels.expert_linear(results, ExpertWeight(values, order), work, out)
        results = x.new_empty(rows * chosen, inner)
    spectrie_kernels.add_experts(out, ids, shares, torch.empty(rows, hidden, device=device))
