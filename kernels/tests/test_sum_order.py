"""The order of a product: of the weight's shape alone, and the same for ranks that share it."""

from __future__ import annotations

import dataclasses

import pytest

from spectrie_kernels import SumOrder
from spectrie_kernels.sum_order import SEGMENT_UNIT, sum_nest

SHAPES = [
    # (out, in, row parallel) -> (segment, segments): 8B, Qwen2.5 of 7B, 1.5B and 0.5B, SmolLM2 of 135M.
    # A change here changes bits: the fingerprint of kernels must change with it.
    ((6144, 4096, False), (1024, 4)),
    ((4096, 4096, True), (512, 8)),
    ((28672, 4096, False), (4096, 1)),
    ((4096, 14336, True), (1792, 8)),
    ((128256, 4096, False), (4096, 1)),
    ((4608, 3584, False), (896, 4)),
    ((3584, 18944, True), (2368, 8)),
    ((2048, 1536, False), (256, 6)),
    ((1536, 1536, True), (192, 8)),
    ((1536, 8960, True), (1120, 8)),
    ((1152, 896, False), (256, 4)),
    ((9728, 896, False), (448, 2)),
    ((896, 896, True), (112, 8)),
    ((896, 4864, True), (608, 8)),
    ((960, 576, False), (256, 3)),
    ((3072, 576, False), (256, 3)),
    ((576, 576, True), (72, 8)),
    ((576, 1536, True), (192, 8)),
]


@pytest.mark.parametrize(("shape", "expected"), SHAPES)
def test_order_of_known_weights_stays(
    shape: tuple[int, int, bool], expected: tuple[int, int]
) -> None:
    out_features, in_features, row_parallel = shape
    order = SumOrder.of(out_features, in_features, row_parallel=row_parallel)
    assert (order.segment, order.segments, order.pairwise) == (*expected, row_parallel)


@pytest.mark.parametrize("row_parallel", [False, True])
def test_segments_cover_all_terms_once(row_parallel: bool) -> None:
    for out_features in (1, 63, 65, 960, 5000, 151936):
        for in_features in [*range(1, 140), 575, 576, 4095, 4096, 53248]:
            order = SumOrder.of(out_features, in_features, row_parallel=row_parallel)
            assert (
                (order.segments - 1) * order.segment < in_features <= order.segments * order.segment
            )
            assert order.segments <= 16
            assert order.padded_segment % SEGMENT_UNIT == 0
            assert 0 <= order.padded_segment - order.segment < SEGMENT_UNIT
            outer, middle, inner = order.nest
            assert outer * middle * inner == order.segments
            assert order.pairwise == (row_parallel and in_features % 8 == 0)


def test_nest_pairwise_adds_neighbours_first() -> None:
    assert [sum_nest(parts, pairwise=True) for parts in (1, 2, 4, 8)] == [
        (1, 1, 1),
        (1, 1, 2),
        (1, 2, 2),
        (2, 2, 2),
    ]
    assert sum_nest(5, pairwise=False) == (1, 1, 5)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_a_rank_has_its_share_of_the_same_segments(ranks: int) -> None:
    whole = SumOrder.of(4096, 14336, row_parallel=True)
    part = whole.shard(ranks)
    assert part.in_features * ranks == whole.in_features
    assert (part.segment, part.segments, part.pairwise) == (whole.segment, 8 // ranks, True)


def test_order_knows_nothing_of_rows_and_dtypes() -> None:
    assert {field.name for field in dataclasses.fields(SumOrder)} == {
        "in_features",
        "segment",
        "pairwise",
    }


@pytest.mark.parametrize("ranks", [0, 3, 16])
def test_impossible_numbers_of_ranks_are_refused(ranks: int) -> None:
    with pytest.raises(ValueError, match=f"{ranks} ranks cannot share 8 segments added pairwise"):
        SumOrder.of(64, 512, row_parallel=True).shard(ranks)


def test_a_weight_that_cannot_be_shared_says_so() -> None:
    order = SumOrder.of(64, 100, row_parallel=True)
    assert order.shard(1) is order
    with pytest.raises(
        ValueError, match="2 ranks cannot share 1 segments added in ascending order"
    ):
        order.shard(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, False), "in_features is 0"),
        ((8, 0, False), "segment 0"),
        ((10, 4, True), "no multiple of a segment of 4"),
        ((12, 4, True), "1, 2, 4 or 8 segments, not 3"),
    ],
)
def test_impossible_orders_are_refused(arguments: tuple[int, int, bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SumOrder(*arguments)
