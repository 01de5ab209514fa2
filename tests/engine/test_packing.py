"""A packed step has the plan's rows and the work list that `spectrie_kernels` would make of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from spectrie._core import (
    DeviceShape,
    Engine,
    EngineError,
    PackedSection,
    PackedWork,
    PackingError,
    Plan,
    Request,
)
from spectrie._proto import worker_pb2
from spectrie_kernels.attention.key_order import KeyOrder
from spectrie_kernels.attention.rows import AttentionRows
from spectrie_kernels.attention.tiles import AttentionTiles
from spectrie_kernels.attention.work import AttentionWork
from tests.engine.packed import Packed, pack

VOCABULARY = 50
PAGE_SIZE = 16
MAX_CONTEXT = 40_000
SECTIONS = list(PackedSection)
FROM_THE_PLAN = {
    PackedSection.ROW_TOKEN: "row_token",
    PackedSection.ROW_POSITION: "row_position",
    PackedSection.ROW_SLOT: "row_slot",
    PackedSection.SAMPLE_ROWS: "sample_rows",
    PackedSection.TOP_ROWS: "top_rows",
    PackedSection.PAGE_IDS: "page_ids",
    PackedSection.ROW_PARENT: "row_parent",
}


def new_engine(**options: object) -> Engine:
    engine = Engine(
        {
            "vocabulary_size": VOCABULARY,
            "eos_token_ids": [0],
            "num_pages": 12_000,
            "page_size": PAGE_SIZE,
            "max_context": MAX_CONTEXT,
            "max_running": 12,
            "max_batch_rows": 4_096,
            "chunk_tokens": 2_000,
            "holdout_every": 0,
            "drafting_cost_ms": 0.01,
            **options,
        }
    )
    # Rows cost next to nothing, so that trees are large.
    engine.set_costs([1, 64, 4_096], [1.0, 1.001, 2.0])
    return engine


def request(handle: int, prompt: list[int], max_tokens: int) -> Request:
    start = worker_pb2.Start(
        prompt_ids=prompt,
        max_tokens=max_tokens,
        ignore_eos=True,
        sampling=worker_pb2.SamplingParameters(
            temperature=0.0, top_p=1.0, typical_p=1.0, repetition_penalty=1.0
        ),
        choice_seed=handle,
        namespace="default",
    )
    return Request(start.SerializeToString(), handle=handle)


def random_prompt(rng: np.random.Generator) -> list[int]:
    """Mostly short, at times tens of thousands of tokens; words come again, so that drafts are found."""
    length = int(10 ** rng.uniform(0, 4.5))
    words = rng.integers(1, 6, (4, 7))
    return list(words[rng.integers(0, 4, length // 7 + 1)].ravel()[:length])


def steps(seed: int, count: int, **options: object) -> Iterator[tuple[Engine, Plan]]:
    """Plans of random requests that come and end; greedy tokens that often follow the drafts."""
    rng = np.random.default_rng(seed)
    engine = new_engine(**options)
    running, handle = 0, 0
    for _ in range(count):
        if (running < 12 and rng.random() < 0.3) or not running:
            handle, running = handle + 1, running + 1
            engine.submit(request(handle, random_prompt(rng), int(rng.integers(1, 60))))
        plan = engine.plan(0.0)
        assert plan is not None
        yield engine, plan
        tokens = rng.integers(1, 6, len(plan.sample_rows), dtype=np.int32)
        # A row's first child is its token at times.
        samples = {int(row): index for index, row in enumerate(plan.sample_rows)}
        starts = plan.request_row_start[plan.row_owner]
        for row, parent in enumerate(plan.row_parent):
            above = samples.get(int(starts[row] + parent)) if parent >= 0 else None
            if above is not None and rng.random() < 0.5:
                tokens[above] = plan.row_token[row]
        output = engine.commit_tokens(plan.plan_id, tokens, 1.0, 0.0)
        running -= sum(finish is not None for finish in output.finishes)


def rows_of(plan: Plan) -> AttentionRows:
    return AttentionRows(
        row_ancestors=plan.row_ancestors,
        request_row_start=plan.request_row_start,
        request_row_count=plan.request_row_count,
        request_kv_len=plan.request_kv_len,
        request_kind=plan.request_kind,
        page_indptr=plan.page_indptr,
        page_ids=plan.page_ids,
        page_size=PAGE_SIZE,
    )


def check_rows(packed: Packed, plan: Plan) -> None:
    for section, name in FROM_THE_PLAN.items():
        assert packed.section(section).tolist() == getattr(plan, name).tolist()
    moves = packed.section(PackedSection.MOVES).reshape(-1, 2)
    assert moves[:, 0].tolist() == plan.kv_move_src.tolist()
    assert moves[:, 1].tolist() == plan.kv_move_dst.tolist()
    walks = [
        [start, count, sample, 0]
        for start, count, kind, sample in zip(
            plan.request_row_start.tolist(),
            plan.request_row_count.tolist(),
            plan.request_kind.tolist(),
            plan.sample_indptr.tolist(),
            strict=False,
        )
        if kind == 1 and count > 1 and sample not in plan.logit_samples
    ]
    assert packed.section(PackedSection.WALKS).reshape(-1, 4).tolist() == walks
    _, path_slots = rows_of(plan).paths()
    assert packed.section(PackedSection.PATH_SLOTS).tolist() == path_slots.tolist()
    step = packed.step
    assert (step.rows, step.samples) == (len(plan.row_token), len(plan.sample_rows))
    assert (step.tops, step.moves) == (len(plan.top_rows), len(plan.kv_move_src))


def check_table(packed: Packed, windows: int) -> None:
    """Sections follow one another, each aligned and with room."""
    step = packed.step
    table = [step.section(section) for section in SECTIONS]
    table += [step.work(window, which) for window in range(windows) for which in PackedWork]
    assert packed.words[: 2 * len(table)].reshape(-1, 2).tolist() == [list(one) for one in table]
    end = 2 * len(table)
    for begin, length in table:
        assert begin % 8 == 0 and end <= begin < end + 8
        end = begin + max(8, length)
    assert end <= step.words < end + 8 and step.words % 8 == 0
    with pytest.raises(IndexError):
        step.work(windows, PackedWork.PART_ITEMS)
    with pytest.raises(IndexError):
        step.section(len(SECTIONS))


def check_work(engine: Engine, plan: Plan, rng: np.random.Generator) -> int:
    """Compares every word for a random model; gives the number of requests whose split changes."""
    group = int(rng.choice([1, 3, 4, 7, 16]))
    # With 128 heads, every unit has another split.
    kv_heads = int(rng.choice([1, 3, 8, 32, 128]))
    drawn = [None if rng.random() < 0.4 else int(10 ** rng.uniform(0, 4.5)) for _ in range(2)]
    tiles = AttentionTiles(*(int(rows) for rows in rng.choice([16, 32, 64], 2)))
    rows = rows_of(plan)
    counts = rows.request_row_count
    widest = int(counts[counts <= 64].max(initial=1))
    part_rows, prompt_rows = tiles.heights(group, widest)
    shape = DeviceShape(group, kv_heads, drawn, VOCABULARY)
    assert shape.windows == list(dict.fromkeys(drawn))
    packed = pack(engine, plan, shape, part_rows, prompt_rows)
    check_table(packed, len(shape.windows))
    check_rows(packed, plan)
    most_splits, apart = 1, 0
    for index, window in enumerate(shape.windows):
        work = AttentionWork.of(rows, KeyOrder.of(kv_heads, window), group, tiles)
        assert np.array_equal(packed.work(index, PackedWork.PART_ITEMS), work.part_items)
        assert np.array_equal(packed.work(index, PackedWork.COMBINED), work.combined)
        assert np.array_equal(packed.work(index, PackedWork.PROMPT_ITEMS), work.prompt_items)
        most_splits = max(most_splits, work.most_splits)
        lows = work.part_items[work.part_items[:, 0] > 0][:, [4, 6]]
        apart += len(np.unique(lows, axis=0)) - len(np.unique(lows[:, 0]))
    assert packed.step.most_splits == most_splits
    assert packed.step.has_prompts == bool((counts > 64).any())
    return apart


def test_rows_and_work_are_those_of_the_plan() -> None:
    rng = np.random.default_rng(1)
    prompts = trees = moved = apart = 0
    for seed in range(12):
        chunk = int(rng.choice([16, 50, 64, 300, 2_000]))
        for engine, plan in steps(seed, 100, chunk_tokens=chunk):
            for _ in range(3):
                apart += check_work(engine, plan, rng)
            prompts += int((plan.request_row_count > 64).sum())
            trees += int(((plan.request_kind == 1) & (plan.request_row_count > 8)).sum())
            moved += len(plan.kv_move_src)
    assert min(prompts, trees, moved, apart) > 100, (prompts, trees, moved, apart)


def test_too_little_room_is_refused_with_what_it_takes_and_nothing_is_written() -> None:
    engine, plan = next(steps(0, 1))
    shape = DeviceShape(4, 2, [None], VOCABULARY)
    needed = pack(engine, plan, shape).step.words
    short = np.full(needed, 77, np.int32)
    with pytest.raises(PackingError, match=f"{needed} words") as raised:
        engine.pack(plan, shape, 64, 64, short.ctypes.data, needed - 1)
    assert raised.value.needed_words == needed
    assert (short == 77).all()
    with pytest.raises(PackingError):
        engine.pack(plan, shape, 64, 64, 0, 0)
    assert engine.pack(plan, shape, 64, 64, short.ctypes.data, needed).words == needed


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"address": 2}, ValueError, "address is 2"),
        ({"address": 0}, ValueError, "address is 0"),
        ({"part_rows": 3}, EngineError, "part_rows is 3; allowed: 4 or more"),
        ({"prompt_rows": 3}, EngineError, "prompt_rows is 3; allowed: 4 or more"),
        (
            {"shape": DeviceShape(4, 2, [None], VOCABULARY + 1)},
            EngineError,
            "vocabulary is 51; allowed: 50",
        ),
    ],
)
def test_what_cannot_be_packed_is_refused_by_name(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    engine, plan = next(steps(0, 1))
    words = np.zeros(1 << 16, np.int32)
    arguments: dict[str, Any] = {
        "plan": plan,
        "shape": DeviceShape(4, 2, [None], VOCABULARY),
        "part_rows": 64,
        "prompt_rows": 64,
        "address": words.ctypes.data,
        "capacity_words": len(words),
    }
    with pytest.raises(error, match=message):
        engine.pack(**{**arguments, **change})
    assert not words.any()


def test_only_the_open_plan_is_packed() -> None:
    made = steps(3, 2)
    engine, first = next(made)
    _, second = next(made)
    shape = DeviceShape(4, 2, [None], VOCABULARY)
    with pytest.raises(EngineError, match="cannot be committed"):
        pack(engine, first, shape)
    pack(engine, second, shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, [None]), "group is 0"),
        ((1, 0, [None]), "kv_heads is 0"),
        ((1, 1, []), "number of windows is 0"),
        ((1, 1, [0]), "window is 0"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(
    arguments: tuple[int, int, list[int | None]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        DeviceShape(*arguments, VOCABULARY)
