"""The launches of a step around its products: what is unpacked, embedded, moved, rotated, gated and chosen."""

from __future__ import annotations

import torch

import spectrie_kernels
from bench.gpu.models.shapes import MODELS, TINY, ModelShape, ProductShape
from spectrie._core import PackedSection
from spectrie_kernels import (
    ROOT_WORDS,
    AttentionArrays,
    AttentionTiles,
    KeyOrder,
    PartialSums,
    RootAnswers,
    RootPlaces,
    RootRows,
    RootSections,
    StepArray,
    StepArrays,
    WorkArrays,
)

__all__ = ["choose_all", "launch_step", "unpack_all"]

_Device = torch.device | str

_ROWS = 3
_PAGE = 16
_TREE_ROWS = 64
_CANDIDATES = 64


def launch_step(
    model: ModelShape, dtype: torch.dtype, device: _Device, *, windows: tuple[int | None, ...]
) -> None:
    """Launches what a layer of a recorded step does besides its products, and what stands before it.

    Args:
        model: Whose sizes.
        dtype: Number format of activations.
        device: Where tensors are.
        windows: Of attention.
    """
    tokens = torch.zeros(_ROWS, dtype=torch.int32, device=device)
    table = torch.zeros(8, model.hidden, dtype=dtype, device=device)
    spectrie_kernels.embed(tokens, table, torch.empty(_ROWS, model.hidden, device=device))
    spectrie_kernels.gather_rows(table, tokens, table.new_empty(_ROWS, model.hidden))
    slots = torch.zeros(2, _PAGE, model.kv_heads, model.head_dim, dtype=dtype, device=device)
    moves = torch.zeros(4, 2, dtype=torch.int32, device=device)
    spectrie_kernels.move_slots(slots, slots.clone(), moves, tokens[:1])
    rows, walks = (tokens, tokens, tokens), moves.view(2, 4)
    spectrie_kernels.compact_slots(slots, slots.clone(), tokens, rows, walks, tokens[:1])
    for window in windows:
        _attend_recorded(model, dtype, device, window)
        _follow(model, device, window)
    qkv, _, gate_up, *_ = model.products
    for product in _forms_of(qkv, dtype, device):
        _rotate(model, product, dtype, device)
    for product in _forms_of(gate_up, dtype, device):
        spectrie_kernels.gate(product, torch.empty(_ROWS, model.inner, dtype=dtype, device=device))


def _forms_of(
    product: ProductShape, dtype: torch.dtype, device: _Device
) -> list[torch.Tensor | PartialSums]:
    """A finished product, and the sums of its segments where there are several."""
    finished = torch.zeros(_ROWS, product.out_features, dtype=dtype, device=device)
    found: list[torch.Tensor | PartialSums] = [finished]
    if product.order.segments > 1:
        sums = torch.zeros(product.order.segments, *finished.shape, device=device)
        bias = finished[0].contiguous() if product.bias else None
        found.append(PartialSums(sums, bias, pairwise=False))
    return found


def _rotate(
    model: ModelShape, product: torch.Tensor | PartialSums, dtype: torch.dtype, device: _Device
) -> None:
    """As Llama and Qwen2 do; of the smallest models also with head norms, and in a layer that turns nothing."""
    numbers = torch.zeros(_ROWS, dtype=torch.int32, device=device)
    slots = torch.zeros(_PAGE, model.kv_heads, model.head_dim, dtype=dtype, device=device)
    query = torch.empty(_ROWS, model.heads, model.head_dim, dtype=dtype, device=device)
    angles = torch.zeros(8, model.head_dim // 2, device=device)
    norm = torch.ones(model.head_dim, device=device)
    forms = [((angles, angles), None), ((angles, angles), (norm, norm)), (None, None)]
    for rotation, norms in forms if model in (MODELS[0], TINY) else forms[:1]:
        spectrie_kernels.rotate_write(
            product,
            numbers,
            # One slot would be written by several rows at once.
            torch.arange(_ROWS, dtype=torch.int32, device=device),
            slots,
            slots.clone(),
            query,
            rotation=rotation,
            norms=norms,
            epsilon=1e-6,
        )


def _attend_recorded(
    model: ModelShape, dtype: torch.dtype, device: _Device, window: int | None
) -> None:
    """Attention of recorded steps, both heights of their tiles; nothing in the arrays counts."""
    group = model.heads // model.kv_heads
    tiles = AttentionTiles.of(model.head_dim, dtype.itemsize)
    query = torch.zeros(_ROWS, model.heads, model.head_dim, dtype=dtype, device=device)
    slots = torch.zeros(_PAGE, model.kv_heads, model.head_dim, dtype=dtype, device=device)

    def empty(width: int) -> torch.Tensor:
        return torch.zeros(_ROWS, width, dtype=torch.int32, device=device)

    numbers = torch.zeros(_ROWS, dtype=torch.int32, device=device)
    for heights in dict.fromkeys(tiles.heights(group, widest) for widest in (1, _TREE_ROWS)):
        arrays = AttentionArrays.of(
            {window: WorkArrays(empty(8), empty(4), empty(8), numbers)},
            group=group,
            kv_heads=model.kv_heads,
            heights=heights,
            page_size=_PAGE,
            page_ids=numbers,
            row_position=numbers,
            path_slots=numbers,
        )
        spectrie_kernels.tree_attention(
            query, slots, slots, arrays, model.head_dim**-0.5, window=window
        )


def _follow(model: ModelShape, device: _Device, window: int | None) -> None:
    """What finds the rows of drafts behind a step, and attention's work of them; none counts."""
    packed, count = _empty_step(device), torch.zeros(1, dtype=torch.int32, device=device)
    walks = torch.zeros(_ROWS, ROOT_WORDS, dtype=torch.int32, device=device)
    places = RootPlaces(
        first_feature=0, first_slot=0, first_state=0, dump=0, max_context=1, embedded=1
    )
    sections = RootSections(
        PackedSection.ROW_TOKEN, PackedSection.ROW_PARENT, PackedSection.PAGE_IDS
    )
    rows = RootRows.empty(_ROWS, device)
    spectrie_kernels.draft_roots(packed, sections, walks, count, packed[:8], places, rows)
    order = KeyOrder.of(model.kv_heads, window)

    def empty(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.int32, device=device)

    items = _ROWS * (order.most_splits + 1)
    work = WorkArrays(empty(items, 8), empty(_ROWS, 4), empty(0, 8), empty(3))
    ids, beams = empty(_ROWS, spectrie_kernels.TOP_K), RootRows.empty(2 * _ROWS, device)
    for names in (None, count):
        answers = RootAnswers(ids, ids.float(), names)
        spectrie_kernels.draft_beams(rows, answers, count, places, beams, empty(1))
    for depth in (0, 1):
        spectrie_kernels.root_work(rows, count, order, work, depth=depth)


def _empty_step(device: _Device) -> torch.Tensor:
    """A packed step whose table says that all sections are empty and begin behind it."""
    packed = torch.zeros(1024, dtype=torch.int32, device=device)
    packed[0 : 2 * len(PackedSection) : 2] = 512
    return packed


def unpack_all(device: _Device) -> None:
    """Launches what brings a packed step to its arrays, and tokens of the step before to it."""
    packed = _empty_step(device)
    spectrie_kernels.unpack(packed, StepArrays.of([StepArray(PackedSection.ROW_TOKEN, 8)], device))
    spectrie_kernels.take_drawn(packed, PackedSection.ROW_TOKEN, packed[:8])


def choose_all(logits: torch.Tensor) -> None:
    """Launches what finds the likeliest tokens of float32 [rows, vocabulary], and what a drafter's head weighs."""
    rows = torch.zeros(logits.shape[0], dtype=torch.int32, device=logits.device)
    spectrie_kernels.row_argmax(logits)
    spectrie_kernels.top_k(logits)
    spectrie_kernels.top_k(logits, rows=rows)
    spectrie_kernels.top_k(logits, rows.new_empty(logits.shape[0], _CANDIDATES))
    spectrie_kernels.token_logits(logits, rows, logits, rows, logits.new_empty(len(rows)))
    spectrie_kernels.lift_rows(logits, rows[:1])
