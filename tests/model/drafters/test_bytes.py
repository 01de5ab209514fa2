"""A drafter's answers are the same bytes however a request came to where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.plan import StepPlan
from tests.model.drafters.dflash import DFLASH, DFLASH2, block_tensors
from tests.model.drafters.fused import EAGLE2, fused_tensors
from tests.model.drafters.heads import VOCABULARY, head_tensors, write_head
from tests.model.drafters.models import with_tokenizer, write_smaller
from tests.model.drafters.mtp_layers import write_alone
from tests.model.drafters.peagle import PEAGLE, peagle_tensors
from tests.model.drafters.session import Request, draft_path, feed, same
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")

TOKENS = tokens(293, VOCABULARY, seed=3)
GUESSES = [5, 77, 130, 8]
SCORED = [5, 9, 199]
PAGES = list(range(40, 60))


KINDS = [
    "eagle3",
    "eagle3_bfloat16",
    "eagle3_two_layers",
    "eagle2_bfloat16",
    "mtp",
    "dflash",
    "dflash_bfloat16",
    "dflash2",
    "peagle",
    "model_itself_bfloat16",
    "model_window",
]


@pytest.fixture(params=KINDS)
def runner(request: pytest.FixtureRequest, tiny: Path, tmp_path: Path) -> Runner:
    """A runner whose drafter's memory is poison: what is read before it is written shows."""
    name: str = request.param
    layers = 2 if name.endswith("two_layers") else 1
    if name.startswith("eagle2"):
        head = write_head(tmp_path, fused_tensors(), **EAGLE2)
    elif name == "mtp":
        write_alone(tmp_path, tiny)
        head = tmp_path
    elif name == "peagle":
        head = write_head(tmp_path, peagle_tensors(), **PEAGLE)
    elif name == "dflash2":
        head = write_head(tmp_path, block_tensors(selected=VOCABULARY), **DFLASH2)
    elif name.startswith("dflash"):
        head = write_head(tmp_path, block_tensors(), **DFLASH)
    elif name.startswith("model_itself"):
        head = tiny
    elif name == "model_window":
        tiny = with_tokenizer(tiny, tmp_path / "target")
        head = write_smaller(tmp_path / "draft", "smollm3_window")
    else:
        head = write_head(tmp_path, head_tensors(layers), num_hidden_layers=layers)
    dtype = "bfloat16" if name.endswith("bfloat16") else "float32"
    runner = load_runner(tiny, dtype=dtype, num_pages=64, drafter=head, threads=2)
    poison(runner)
    return runner


def poison(runner: Runner) -> None:
    assert runner.native is not None
    runner.native.poison_drafter(float("nan"))


def reads_features(runner: Runner) -> bool:
    return runner.drafter is not None and runner.drafter.needs_features


def cold(runner: Runner, ids: list[int]) -> list[Answers]:
    """Answers of a request computed in one chunk, in poisoned memory."""
    poison(runner)
    request = Request(runner, PAGES)
    feed(request, ids, 512)
    answers = draft_path(request, GUESSES, SCORED)
    assert all(np.isfinite(answer.probabilities).all() for answer in answers)
    assert all((answer.ids >= 0).all() for answer in answers)
    return answers


@pytest.mark.parametrize("size", [1, 16, 256, 7])
def test_chunks_do_not_matter(runner: Runner, size: int) -> None:
    ids = TOKENS[:61] if size == 1 else TOKENS
    expected = cold(runner, ids)
    poison(runner)
    request = Request(runner, range(20))
    feed(request, ids, size)
    assert same(draft_path(request, GUESSES, SCORED), expected)


@pytest.mark.parametrize("length", [33, 48, 50])
def test_a_prefix_hit_gives_the_bytes_of_a_cold_request(runner: Runner, length: int) -> None:
    expected = cold(runner, TOKENS[:length])
    poison(runner)
    first = Request(runner, range(4))
    feed(first, TOKENS[:40], 13)
    # The moves that the first owes travel with the next plan, whoever's it is.
    second = Request(runner, [0, 1, 20, 21], seat=1)
    second.hit(2, first)
    second.moves = first.moves
    feed(second, TOKENS[32:length], 8)
    assert same(draft_path(second, GUESSES, SCORED), expected)


def test_rows_that_are_left_out_get_no_entry_and_change_none_of_others(runner: Runner) -> None:
    ids = TOKENS[:61]
    expected = cold(runner, ids)
    poison(runner)
    kept, left = Request(runner, range(10)), Request(runner, range(20, 30), seat=1)
    for first in range(0, len(ids), 13):
        chunk = ids[first : first + 13]
        out = replace(left.chunk(chunk), request_feature=np.array([-2], np.int32))
        runner.step(StepPlan.joined([kept.chunk(chunk), out]))
        kept.commit(0, len(chunk))
        left.commit(len(chunk), len(chunk))
    assert same(draft_path(kept, GUESSES, SCORED), expected)
    answers = draft_path(left, GUESSES, SCORED)
    # What it should read was never written. A drafter without features does not heed this.
    is_answered = [bool((answer.ids >= 0).all()) for answer in answers]
    assert is_answered == [not reads_features(runner)] * len(GUESSES)


def test_a_preempted_request_goes_on_with_the_bytes_of_one_that_was_not(runner: Runner) -> None:
    ids = TOKENS[:77]
    expected = cold(runner, ids)
    poison(runner)
    request = Request(runner, range(8))
    feed(request, ids[:70], 16)
    draft_path(request, GUESSES, SCORED)
    # Another one takes all of its pages but the first two, and its seat.
    other = Request(runner, range(2, 12))
    feed(other, TOKENS[100:250], 64)
    draft_path(other, GUESSES, SCORED)
    # It goes on elsewhere from what is left of it, and its text is computed again in other chunks.
    again = Request(runner, [0, 1, 20, 21, 22, 23, 24], seat=1)
    again.hit(2, request)
    feed(again, ids[32:], 9)
    assert same(draft_path(again, GUESSES, SCORED), expected)


def test_company_does_not_matter(runner: Runner) -> None:
    alone = cold(runner, TOKENS[:50])
    poison(runner)
    requests = [Request(runner, range(first, first + 6), seat=first) for first in range(0, 42, 6)]
    lengths = [20, 50, 3, 77, 16, 1, 90]
    runner.step(
        StepPlan.joined(
            [
                request.chunk(TOKENS[:length])
                for request, length in zip(requests, lengths, strict=True)
            ]
        )
    )
    moves, first = [], 0
    for request, length in zip(requests, lengths, strict=True):
        request.commit(first, length)
        moves += request.moves
        first += length
    count = len(requests)
    for level, token in enumerate(GUESSES):
        # Two rows a request from the second level on, of which the first continues the path.
        copies = 1 if level == 0 else 2
        before = 0 if level == 0 else 1 if level == 1 else 2
        rows, index = [], 0 if level == 0 else count + 2 * count * (level - 1)
        for number, request in enumerate(requests):
            for copy in range(copies):
                parent = -1
                if level:
                    start = 0 if level == 1 else index - 2 * count
                    parent = start + number * before
                rows.append((token if copy == 0 else 3, request.kv_len + level, number, parent))
        plan = LevelPlan.of(
            [request.asked() for request in requests],
            rows,
            level=level + 1,
            row_index=index,
            scored=[SCORED] * len(rows),
            moves=moves if level == 0 else (),
            fills=[request.fill() for request in requests],
        )
        answers = runner.draft(plan)
        own = 1 * copies
        found = Answers(
            answers.ids[own : own + 1],
            answers.probabilities[own : own + 1],
            answers.scored[own * len(SCORED) : (own + 1) * len(SCORED)],
        )
        assert same([found], [alone[level]]), level


def test_an_accepted_path_of_a_tree_leaves_true_entries(runner: Runner) -> None:
    ids = TOKENS[:45]
    expected = cold(runner, ids)
    poison(runner)
    request = Request(runner, range(8))
    feed(request, ids[:30], 30)
    # Guesses fill the scratch slots, then a tree is verified, of which nodes 0, 2 and 4 are accepted.
    draft_path(request, [1, 2, 3])
    tree = [ids[30], 9, ids[31], 8, ids[32]]
    runner.step(
        StepPlan.single(
            tree,
            kv_len=30,
            pages=request.pages[:3],
            parents=[-1, 0, 0, 2, 2],
            feature=request.store,
        )
    )
    # Row 2 is the last slot of the second page after the move, which the row of node 2 takes.
    request.kv_len, request.text = 33, ids
    request.moves = [(2, request.pages[1]), (4, request.store)]
    slots = [(32, 31), (34, 32)]
    moves = [
        (request.pages[a // 16] * 16 + a % 16, request.pages[b // 16] * 16 + b % 16)
        for a, b in slots
    ]
    rest = StepPlan.single(
        ids[33:],
        kv_len=33,
        pages=request.pages[:3],
        moves=moves,
        feature=request.store,
        feature_moves=request.moves,
    )
    runner.step(rest)
    request.commit(0, len(ids) - 33)
    assert same(draft_path(request, GUESSES, SCORED), expected)
    # A later request that shares the two full pages finds the features of their last tokens.
    other = Request(runner, [*request.pages[:2], 30], seat=5)
    other.hit(2, request)
    feed(other, ids[32:], 4)
    assert same(draft_path(other, GUESSES, SCORED), expected)


def test_a_level_behind_an_accepted_path_moves_it_into_place(runner: Runner, tiny: Path) -> None:
    ids = TOKENS[:33]
    expected = cold(runner, ids)
    poison(runner)
    request = Request(runner, range(8))
    feed(request, ids[:30], 30)
    tree = StepPlan.single(
        [ids[30], 9, ids[31], 8, ids[32]],
        kv_len=30,
        pages=request.pages[:3],
        parents=[-1, 0, 0, 2, 2],
        feature=request.store,
        feature_moves=request.moves,
    )
    runner.step(tree)
    request.kv_len, request.text = 33, ids
    plan = LevelPlan.of(
        [request.asked()],
        [(GUESSES[0], 33, 0, -1)],
        scored=[SCORED],
        slots=[(32, 31), (34, 32)],
        moves=[(2, request.pages[1]), (4, request.store)],
        fills=[request.fill()],
    )
    assert same([runner.draft(plan)], expected[:1])
    # The target's own keys were moved as well.
    request.moves = []
    last = StepPlan.single(ids[:1], kv_len=33, pages=request.pages[:3], feature=request.store)
    plain = load_runner(tiny, dtype=runner.dtype_name, num_pages=64, threads=1)
    plain.step(StepPlan.single(ids, kv_len=0, pages=range(3)))
    alone = StepPlan.single(ids[:1], kv_len=33, pages=range(3))
    assert np.array_equal(runner.forward(last).numpy(), plain.forward(alone).numpy())


def test_entries_that_wait_yield_to_a_later_text_in_their_slots(runner: Runner) -> None:
    expected = cold(runner, TOKENS[:70])
    poison(runner)
    feed(Request(runner, range(8)), TOKENS[100:140], 5)
    request = Request(runner, range(8))
    feed(request, TOKENS[:70], 70)
    assert same(draft_path(request, GUESSES, SCORED), expected)


def test_entries_that_wait_are_copied_with_their_slots(runner: Runner) -> None:
    ids = TOKENS[:45]
    expected = cold(runner, ids)
    poison(runner)
    first = Request(runner, [10, 11])
    feed(first, ids[:20], 7)
    # Another one goes on from copies of the second page's slots; the last feature is not known.
    second = Request(runner, [10, 30, 31], seat=1)
    second.kv_len, second.text = 19, ids
    plan = StepPlan.single(
        ids[19:25],
        kv_len=19,
        pages=second.pages[:2],
        moves=[(11 * 16 + at, 30 * 16 + at) for at in range(4)],
        feature_moves=first.moves,
    )
    runner.step(plan)
    second.commit(0, 6)
    # What the first writes to its own slots since is nothing to the other.
    first.moves, first.kv_len = second.moves, 16
    runner.step(
        StepPlan.single(TOKENS[200:203], kv_len=16, pages=[10, 11], feature_moves=second.moves)
    )
    second.moves = []
    feed(second, ids[25:], 4)
    assert same(draft_path(second, GUESSES, SCORED), expected)


def test_keys_that_are_made_up_in_parts_give_the_bytes_of_those_made_at_once(
    runner: Runner,
) -> None:
    ids = TOKENS[:77]
    expected = cold(runner, ids)
    poison(runner)
    request = Request(runner, range(8))
    for first, end in [(0, 7), (7, 40), (40, 77)]:
        feed(request, ids[first:end], 11)
        if first == 7:
            # A level without rows, for keys alone.
            plan = LevelPlan.of([request.asked()], [], moves=request.moves, fills=[request.fill()])
            assert len(runner.draft(plan).ids) == 0
            request.moves = []
        else:
            draft_path(request, GUESSES[:1])
    assert same(draft_path(request, GUESSES, SCORED), expected)


def test_a_drafter_changes_no_logit(runner: Runner, tiny: Path) -> None:
    plain = load_runner(tiny, dtype=runner.dtype_name, num_pages=64, threads=1)
    plan = StepPlan.single(TOKENS, kv_len=0, pages=PAGES)
    assert np.array_equal(runner.forward(plan).numpy(), plain.forward(plan).numpy())


def test_a_first_level_begins_anew_and_a_forward_ends_it(runner: Runner) -> None:
    request = Request(runner, PAGES)
    feed(request, TOKENS[:20], 20)
    first = draft_path(request, GUESSES, SCORED)
    assert same(draft_path(request, GUESSES, SCORED), first)
    runner.step(request.chunk(TOKENS[20:21]))
    late = LevelPlan.of([request.asked()], [(1, 21, 0, 0)], level=2, row_index=1)
    with pytest.raises(ValueError, match=r"row_index\[0\] is 1, expected 0"):
        runner.draft(late)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [(200, 20, 0, -1)]}, "row_token"),
        ({"rows": [(1, 21, 0, -1)]}, r"row_position\[0\] is 21, expected 20"),
        ({"rows": [(1, 20, 1, -1)]}, "row_request"),
        ({"rows": [(1, 20, 0, 0)]}, r"row_parent\[0\] is 0, expected -1 on the first level"),
        ({"requests": [(20, 10**6, [40, 41])]}, "request_feature"),
        ({"requests": [(0, 64, [40, 41])]}, r"request_kv_len\[0\] is 0, expected 1"),
        ({"requests": [(20, 64, [40])]}, "expected pages for 20 tokens"),
        ({"requests": [(20, 64, [40, 64])]}, "page_ids"),
        ({"slots": [(0, 1024)]}, r"kv_move_dst\[0\] is 1024"),
        ({"moves": [(20, 64)]}, r"feature_moves\[0\] is 20, expected 0\.\.20"),
        ({"copies": [(0, 10**6)]}, "feature_copies"),
        ({"scored": [[200]]}, "scored_token"),
        ({"fills": [(0, [200])]}, "fill_token"),
        ({"fills": [(20, [1])]}, "request_fill_start|fill_token"),
        ({"fills": [(-1, [1])]}, "request_fill_start|fill_token"),
        ({"rows": [(1, 20, 0, -1)] * 513}, "draft rows of a step has 513 elements, expected 512"),
    ],
)
def test_levels_that_contradict_themselves_are_refused(
    runner: Runner, changes: dict[str, list[object]], message: str
) -> None:
    # Where none are read.
    is_ignored = "feature" in message and not reads_features(runner)
    request = Request(runner, PAGES)
    feed(request, TOKENS[:20], 20)
    level: dict[str, object] = {
        "requests": [request.asked()],
        "rows": [(1, 20, 0, -1)],
        "moves": request.moves,
        "fills": [request.fill()],
    }
    wrong = LevelPlan.of(**(level | changes))  # type: ignore[arg-type]
    if is_ignored:
        assert (runner.draft(wrong).ids >= 0).all()
        return
    with pytest.raises(ValueError, match=message):
        runner.draft(wrong)
    # Nothing was changed: the same level without the mistake is answered.
    assert (runner.draft(LevelPlan.of(**level)).ids >= 0).all()  # type: ignore[arg-type]
