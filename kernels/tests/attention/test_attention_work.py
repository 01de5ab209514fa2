"""The work of a step: each row's keys in the parts of its order, each once, in their place."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from kernels.tests.forests import TREE, Request, chunk, path_of, rows_of, tree
from spectrie_kernels import AttentionRows, AttentionTiles, KeyOrder
from spectrie_kernels.attention.work import AttentionWork

TILES = AttentionTiles()
Parts = list[tuple[int, int]]


def steps(seed: int) -> list[Request]:
    source = random.Random(seed)
    spine = Request(source.randrange(100, 900), TREE, list(range(-1, 63)))
    return [
        tree(source.randrange(0, 900), 1, source),
        spine,
        chunk(source.randrange(0, 900), source.randrange(65, 300)),
        tree(source.randrange(0, 900), source.randrange(2, 65), source),
        chunk(source.randrange(0, 900), source.randrange(1, 65)),
        chunk(0, 65),
    ]


def written(work: AttentionWork, rows: AttentionRows) -> Iterator[tuple[int, int, int]]:
    """Each slot that a program writes, with the first key and the end of its part."""
    positions = rows.positions()
    for nodes, first_row, begin, end, _, slot, low, high in work.part_items.tolist():
        for node in range(max(1, nodes)):
            if not nodes or low <= positions[first_row + node] < high:
                yield slot + node, begin, end


def parts_of(work: AttentionWork, rows: AttentionRows) -> dict[int, Parts]:
    """For each row the keys of its parts, in the order in which they are added."""
    found: dict[int, Parts] = {}
    slots = {slot: (begin, end) for slot, begin, end in written(work, rows)}
    for index, (row, first, splits, _) in enumerate(work.combined.tolist()):
        prefix = [slots[first + part * work.split_rows] for part in range(splits)]
        found[row] = [*prefix, slots[index]]
    for nodes, first_row, begin, end, _, position, split, _ in work.prompt_items.tolist():
        for node in range(nodes):
            cuts = [begin, *(key for key in range(begin + 1, end) if key % split == 0), end]
            own = [pair for pair in itertools.pairwise(cuts) if pair[0] < pair[1]]
            found[first_row + node] = [*own, (end, position + node + 1)]
    return found


def expected_parts(position: int, order: KeyOrder) -> Parts:
    spans = order.spans(np.array([position]))
    begin, end, split = int(spans.begin[0]), int(spans.end[0]), int(spans.split[0])
    cuts = [begin, *(key for key in range(begin + 1, end) if key % split == 0), end]
    prefix = [pair for pair in itertools.pairwise(cuts) if pair[0] < pair[1]]
    return [*prefix, (end, position + 1)]


@pytest.mark.parametrize("window", [None, 1, 64, 100, 333])
@pytest.mark.parametrize("most", [1, 2, 3, 16])
@pytest.mark.parametrize("group", [1, 3, 4, 16])
def test_parts_of_a_row_follow_from_its_position(group: int, most: int, window: int | None) -> None:
    order = KeyOrder(most, window)
    for seed in range(6):
        rows = rows_of(steps(seed), 16, random.Random(seed))
        work = AttentionWork.of(rows, order, group, TILES)
        found = parts_of(work, rows)
        positions = rows.positions().tolist()
        assert sorted(found) == list(range(len(positions)))
        for row, position in enumerate(positions):
            wanted = expected_parts(position, order)
            # A shared program may go on to keys behind the prefix, which the row does not see.
            seen = [(begin, min(end, wanted[-1][0])) for begin, end in found[row][:-1]]
            seen = [(max(begin, wanted[0][0]), end) for begin, end in seen]
            assert [*seen, found[row][-1]] == wanted


@pytest.mark.parametrize("window", [None, 100])
def test_no_two_programs_write_one_slot_and_all_fit_the_workspace(window: int | None) -> None:
    for seed in range(20):
        order = KeyOrder(3, window)
        rows = rows_of(steps(seed), 16, random.Random(seed))
        work = AttentionWork.of(rows, order, 4, TILES)
        slots = [slot for slot, _, _ in written(work, rows)]
        assert len(slots) == len(set(slots))
        assert max(slots) < (order.max_parts + 1) * work.split_rows
        assert work.combined[:, 2].max() < order.max_parts


def test_a_tail_lies_along_the_path_of_its_row() -> None:
    source = random.Random(3)
    requests = [tree(70, 30, source), tree(5, 64, source), chunk(90, 7), tree(200, 1, source)]
    rows = rows_of(requests, 16, source)
    work = AttentionWork.of(rows, KeyOrder(16), 2, TILES)
    _, slots = rows.paths()
    owner = rows.owner
    for nodes, row, _, end, pages, _, low, path in work.part_items.tolist():
        if nodes:
            continue
        request = int(owner[row])
        one = requests[request]
        assert pages == rows.page_indptr[request]
        if one.kind != TREE:
            assert low == end
            continue
        assert low == one.kv_len
        node = row - int(rows.request_row_start[request])
        logical = np.array([one.kv_len + own for own in path_of(one.parents, node)])
        wanted = rows.slots(np.full_like(logical, request), logical)
        assert end - low == len(wanted)
        assert slots[path : path + end - low].tolist() == wanted.tolist()


def test_tiles_of_a_prompt_stay_within_a_unit_and_the_longest_come_first() -> None:
    rows = rows_of([chunk(100, 300), chunk(0, 90)], 16, random.Random(0))
    items = AttentionWork.of(rows, KeyOrder(16), 3, TILES).prompt_items
    for nodes, _, _, _, _, position, _, _ in items.tolist():
        assert position // 64 == (position + nodes - 1) // 64
    prefixes = (items[:, 3] - items[:, 2]).tolist()
    assert prefixes == sorted(prefixes, reverse=True)


def test_shared_prefixes_are_read_once_by_the_nodes_of_a_tile() -> None:
    """16 nodes of a group of 4 are one tile: as many programs of splits as one node has."""
    source = random.Random(0)
    one = AttentionWork.of(rows_of([tree(1000, 1, source)], 16, source), KeyOrder(16), 4, TILES)
    many = AttentionWork.of(rows_of([tree(1000, 16, source)], 16, source), KeyOrder(16), 4, TILES)
    assert (one.part_rows, many.part_rows) == (16, 64)
    assert (one.part_items[:, 0] > 0).sum() == (many.part_items[:, 0] > 0).sum()


def test_an_empty_step_has_no_work() -> None:
    empty = np.zeros(0, np.int32)
    rows = AttentionRows(
        np.zeros(0, np.int64), empty, empty, empty, empty, np.zeros(1, np.int32), empty, 16
    )
    work = AttentionWork.of(rows, KeyOrder(16), 4, TILES)
    assert [len(one) for one in (work.part_items, work.combined, work.prompt_items)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"page_size": 3}, "page_size is 3"),
        ({"row_ancestors": np.zeros(2, np.int32)}, "row_ancestors is int32"),
        ({"row_ancestors": np.zeros(3, np.int64)}, "requests have 2 rows, row_ancestors 3"),
        ({"page_indptr": np.zeros(3, np.int32)}, "page_indptr has 3 entries, expected 2"),
        (
            {"row_ancestors": np.zeros(65, np.int64), "request_row_count": np.array([65])},
            "a tree has 65 rows, at most 64",
        ),
    ],
)
def test_impossible_rows_are_refused(change: dict[str, object], message: str) -> None:
    rows = rows_of([Request(3, TREE, [-1, 0])], 16, random.Random(0))
    fields = {name: getattr(rows, name) for name in AttentionRows.__slots__}
    with pytest.raises(ValueError, match=message):
        AttentionRows(**(fields | change))
