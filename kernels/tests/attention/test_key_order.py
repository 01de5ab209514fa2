"""Where a row's keys are cut: a function of its position and the model alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from spectrie_kernels import KeyOrder

POSITIONS = np.arange(0, 40_000)


# Key-value heads -> most splits. A change here or below changes bits: the fingerprint of kernels must
# change with it.
@pytest.mark.parametrize(
    ("kv_heads", "splits"),
    [(1, 32), (2, 32), (3, 32), (4, 32), (8, 16), (16, 8), (32, 4), (200, 1)],
)
def test_splits_of_known_models_stay(kv_heads: int, splits: int) -> None:
    assert KeyOrder.of(kv_heads) == KeyOrder(splits, None)


@pytest.mark.parametrize(
    ("position", "window", "expected"),
    [
        (0, None, (0, 0, 64, 0)),
        (127, None, (0, 0, 64, 0)),
        (128, None, (0, 64, 64, 1)),
        (191, None, (0, 64, 64, 1)),
        (1151, None, (0, 1024, 64, 16)),
        (1152, None, (0, 1088, 128, 9)),
        (8192, None, (0, 8128, 512, 16)),
        (32_767, None, (0, 32_640, 2048, 16)),
        (8192, 4096, (4096, 8128, 256, 16)),
        (8255, 4096, (4096, 8128, 256, 16)),
        (8256, 4096, (4160, 8192, 256, 16)),
        (300, 1, (192, 192, 64, 0)),
        (300, 65, (192, 192, 64, 0)),
        (300, 66, (128, 192, 64, 1)),
    ],
)
def test_cuts_of_known_positions_stay(
    position: int, window: int | None, expected: tuple[int, int, int, int]
) -> None:
    spans = KeyOrder(16, window).spans(np.array([position]))
    found = (spans.begin[0], spans.end[0], spans.split[0], spans.splits[0])
    assert tuple(map(int, found)) == expected


@pytest.mark.parametrize("window", [None, 1, 64, 100, 1000, 4096, 100_000])
@pytest.mark.parametrize("most", [1, 2, 16, 32])
def test_every_seen_key_is_in_the_prefix_or_the_tail(most: int, window: int | None) -> None:
    order = KeyOrder(most, window)
    spans = order.spans(POSITIONS)
    tail = POSITIONS + 1 - spans.end
    assert tail.min() >= 1 and tail.max() <= 128
    first_seen = np.zeros_like(POSITIONS) if window is None else POSITIONS - window + 1
    # What is before the prefix is not seen, but for windows that end within the tail.
    assert np.all(spans.begin <= np.maximum(first_seen, 0) // 64 * 64)
    assert np.all(spans.begin <= spans.end)
    for cut in (spans.begin, spans.end, spans.split):
        assert np.all(cut % 64 == 0)
    assert spans.splits.max() + 1 <= order.max_parts
    # About one wave: no more programs would fit, not many fewer are taken.
    units = (spans.end - spans.begin) // 64
    assert np.all(-(-units // (spans.split // 64)) <= most)
    smaller = spans.split > 64
    assert np.all(-(-units // np.maximum(1, spans.split // 64 - 1))[smaller] > most)


@pytest.mark.parametrize("window", [None, 100, 4096])
def test_rows_of_one_unit_are_cut_alike_whatever_is_asked_beside_them(window: int | None) -> None:
    order = KeyOrder(16, window)
    together = order.spans(POSITIONS)
    for position in (0, 63, 64, 1151, 1152, 9000, 39_999):
        of_unit = order.spans(np.array([position // 64 * 64]))
        for field in dataclasses.fields(together):
            one, all_of = getattr(of_unit, field.name), getattr(together, field.name)
            assert int(one[0]) == int(all_of[position])


def test_order_knows_nothing_of_rows_and_requests() -> None:
    assert {field.name for field in dataclasses.fields(KeyOrder)} == {"max_splits", "window"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, None), "max_splits is 0"), ((1, 0), "window is 0")],
)
def test_impossible_orders_are_refused(arguments: tuple[int, int | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KeyOrder(*arguments)
    with pytest.raises(ValueError, match="kv_heads is 0"):
        KeyOrder.of(0)
