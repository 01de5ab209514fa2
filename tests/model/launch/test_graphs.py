"""Recorded steps on a fake device: what they launch, which bucket they take, what they leave alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import spectrie_kernels
from bench.gpu.fake_device import FakeDevice
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.launch.capacity import BUCKETS, buckets_up_to
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from spectrie_kernels import ExpertWork
from tests.model.families import save_family
from tests.model.launch.launching import PAGES, Launching
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")

KERNELS = (
    "draft_roots",
    "draft_beams",
    "root_work",
    "take_drawn",
    "unpack",
    "move_rows",
    "move_slots",
    "compact_slots",
    "embed",
    "add_norm",
    "linear",
    "linear_sums",
    "rotate_write",
    "tree_attention",
    "gate",
    "choose_experts",
    "group_choices",
    "expert_linear",
    "add_experts",
    "gather_rows",
    "row_argmax",
    "draw",
    "top_k",
    "token_logits",
)
VIEWS = {
    "view",
    "flatten",
    "slice",
    "select",
    "split_with_sizes",
    "t",
    "unsqueeze",
    "detach",
    "alias",
}
"""Operators of torch that neither compute nor allocate."""
MEMORY = {
    "empty",
    "zeros",
    "new_empty",
    "new_zeros",
    "empty_like",
    "zeros_like",
    "clone",
    "_to_copy",
}


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts torch's operators outside kernels, which in their plain form consist of them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        self._inside = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if not self._inside and name not in VIEWS:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Counts each call of a kernel as one operator of its name."""

        def counting(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
            def count(*arguments: Any, **options: Any) -> Any:
                self.counts[name] += 1
                self._inside += 1
                try:
                    return kernel(*arguments, **options)
                finally:
                    self._inside -= 1

            return count

        counted: dict[str, Any] = {
            name: counting(name, getattr(spectrie_kernels, name)) for name in KERNELS
        }
        with mock.patch.multiple(spectrie_kernels, **counted), self:
            yield


def operations(one: Launching, plan: StepPlan, wanted: Wanted) -> Counter[str]:
    """What host and device do in a step behind two others, from its launch to its results."""
    for _ in range(2):
        one.launcher.launch(plan, wanted).wait()
    counted = Operations()
    with counted.kernels():
        one.launcher.launch(plan, wanted).wait()
    return counted.counts


def path(count: int, kv_len: int = 0, pages: Sequence[int] = PAGES) -> StepPlan:
    """A tree of one path."""
    parents = range(-1, count - 1)
    return StepPlan.single(tokens(count, 200), kv_len=kv_len, pages=pages, parents=list(parents))


def forest(count: int) -> StepPlan:
    """As many requests of one row each."""
    return StepPlan.joined(
        [StepPlan.single([i % 200], kv_len=0, pages=[i % 16]) for i in range(count)]
    )


def test_a_recorded_step_is_one_launch_two_copies_and_one_wait(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    plan = replace(path(5), top_rows=np.arange(5, dtype=np.int32))
    for _ in range(2):
        one.launcher.launch(plan, Wanted.LIKELIEST).wait()
    one.device.counts.clear()
    launched = one.launcher.launch(plan, Wanted.LIKELIEST)
    # The wait is for the last use of its pinned memory, long over.
    assert one.device.counts == {"wait": 1, "copy": 2, "replay": 1, "event": 1}
    launched.wait()
    assert one.device.counts["wait"] == 2


def test_a_layer_of_exact_arithmetic_is_nine_kernels_and_no_operator_of_torch(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True, exact=True)
    layers = ModelConfig.from_folder(tiny).num_layers
    counts = operations(one, path(5), Wanted.LIKELIEST)
    # Packed step and results.
    assert counts.pop("copy_") == 2
    assert counts == {
        # Where no row stands for a token of the step before it changes nothing.
        "take_drawn": 1,
        "unpack": 2,
        "move_slots": 1,
        "embed": 1,
        "add_norm": 2 * layers + 1,
        "linear": 2 * layers + 1,
        "linear_sums": 2 * layers,
        "rotate_write": layers,
        "tree_attention": layers,
        "gate": layers,
        "gather_rows": 1,
        "row_argmax": 1,
        # Of a step that wants none it computes nothing.
        "top_k": 1,
        "compact_slots": 1,
    }


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose second of three layers is dense, the others of experts."""
    folder: Path = tmp_path_factory.mktemp("mixture")
    save_family("qwen3_moe", folder)
    return folder


@pytest.mark.parametrize("exact", [False, True])
def test_a_layer_of_experts_is_seven_kernels_for_the_four_of_a_dense_one(
    mixture: Path, exact: bool
) -> None:
    one = Launching.of(mixture, recorded=True, exact=exact)
    counts = operations(one, path(5), Wanted.LIKELIEST)
    # Packed step and results.
    assert counts.pop("copy_") == 2
    assert counts.pop("mm", 0) == (0 if exact else 3 * 2 + 2 + 1)
    assert not set(counts) - set(KERNELS)
    of_experts = ("choose_experts", "group_choices", "add_experts")
    assert {name: counts[name] for name in of_experts} == dict.fromkeys(of_experts, 2)
    assert counts["expert_linear"] == 2 * 2
    assert counts["gate"] == 3
    # Scores of two layers; with exact arithmetic queries of each layer, the dense one's gate, and the head.
    assert counts["linear"] == (2 + 3 + 1 + 1 if exact else 2)
    # The output of each layer and the dense one's down.
    assert counts["linear_sums"] == (3 + 1 if exact else 0)


def test_rows_that_stand_for_none_choose_no_expert(mixture: Path) -> None:
    one = Launching.of(mixture, recorded=True, exact=True)
    grouped = []
    group = spectrie_kernels.group_choices

    def seen(ids: torch.Tensor, work: ExpertWork) -> ExpertWork:
        grouped.append(ids.clone())
        return group(ids, work)

    with mock.patch.object(spectrie_kernels, "group_choices", seen):
        one.launcher.launch(path(5), Wanted.LIKELIEST).wait()
    assert len(grouped) == 2
    for ids in grouped:
        assert len(ids) == 8
        assert (ids[:5] >= 0).all()
        assert (ids[5:] == -1).all()


def test_a_step_of_a_mixture_gives_the_same_in_its_bucket_as_without(mixture: Path) -> None:
    recorded, plain = (Launching.of(mixture, recorded=one, exact=True) for one in (True, False))
    for rows in (1, 3, 20, 60):
        for plan in (path(rows), forest(rows)):
            mine, other = (one.launcher.forward(plan) for one in (recorded, plain))
            torch.testing.assert_close(mine.logits, other.logits, rtol=1e-4, atol=1e-4)


def test_a_layer_of_fast_arithmetic_has_no_operators_of_torch_but_products(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    layers = ModelConfig.from_folder(tiny).num_layers
    counts = operations(one, path(5), Wanted.LIKELIEST)
    # Packed step and results.
    assert counts.pop("copy_") == 2
    assert counts.pop("mm") == 4 * layers + 1
    assert set(counts) <= set(KERNELS)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("has_experts", [False, True])
def test_a_recorded_step_allocates_nothing(
    tiny: Path, mixture: Path, has_experts: bool, exact: bool
) -> None:
    folder = mixture if has_experts else tiny
    one = Launching.of(folder, recorded=True, exact=exact)
    plan = replace(path(5), top_rows=np.arange(5, dtype=np.int32))
    assert not set(operations(one, plan, Wanted.LIKELIEST)) & MEMORY
    # So that the line above says something.
    one = Launching.of(folder, exact=exact)
    assert set(operations(one, plan, Wanted.LIKELIEST)) & MEMORY


def test_no_recorded_step_makes_pinned_memory_grow(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    before = one.device.counts["pinned"]
    for rows in (1, 20, 128):
        plan = replace(forest(rows), top_rows=np.arange(rows, dtype=np.int32))
        one.launcher.launch(plan, Wanted.LIKELIEST).wait()
    pages = np.zeros(1 << 15, np.int32)
    pages[: len(PAGES)] = PAGES
    one.launcher.launch(
        replace(path(5), page_ids=pages, page_indptr=np.array([0, len(pages)], np.int32)),
        Wanted.LIKELIEST,
    ).wait()
    assert one.device.counts["pinned"] == before


def computed_rows(one: Launching, plan: StepPlan) -> list[int]:
    """Rows of each forward that a step computes."""
    rows = []
    embed = spectrie_kernels.embed

    def seen(numbers: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        rows.append(len(numbers))
        return embed(numbers, *others)

    with mock.patch.object(spectrie_kernels, "embed", seen):
        one.launcher.launch(plan, Wanted.LIKELIEST).wait()
    return rows


def test_a_step_takes_the_first_bucket_that_holds_it(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    for rows, bucket in ((1, 1), (2, 2), (3, 4), (16, 16), (17, 24), (65, 96), (128, 128)):
        assert computed_rows(one, forest(rows)) == [bucket]
    # Behind the last bucket of this model.
    assert computed_rows(one, forest(129)) == [129]


def test_buckets_end_with_the_largest_step() -> None:
    assert buckets_up_to(1) == (1,)
    assert buckets_up_to(17) == (1, 2, 4, 8, 16, 24)
    assert buckets_up_to(512) == BUCKETS
    assert buckets_up_to(4096) == BUCKETS


@pytest.mark.parametrize("rows", [3, 5, 20, 70])
def test_rows_that_stand_for_none_are_written_nowhere(tiny: Path, rows: int) -> None:
    one = Launching.of(tiny, recorded=True)
    one.launcher.forward(path(60))
    keys, values = one.operators._keys, one.operators._values
    keys.fill_(7.0)
    values.fill_(7.0)
    plan = forest(rows) if rows > 64 else path(rows, kv_len=2)
    one.launcher.launch(plan, Wanted.LIKELIEST).wait()
    written = (keys != 7.0).flatten(2).any(dim=2).any(dim=0).nonzero().flatten().tolist()
    assert written == sorted(set(plan.row_slot.tolist()))


def test_a_step_gives_the_same_in_its_bucket_as_without(tiny: Path) -> None:
    recorded, plain = Launching.of(tiny, recorded=True), Launching.of(tiny)
    for rows in (1, 3, 5, 20, 60):
        for plan in (path(rows), forest(rows)):
            mine, other = (one.launcher.forward(plan) for one in (recorded, plain))
            torch.testing.assert_close(mine.logits, other.logits, rtol=1e-4, atol=1e-4)
            mine, other = (
                one.launcher.launch(plan, Wanted.LIKELIEST).wait() for one in (recorded, plain)
            )
            assert mine.tokens is not None
            assert other.tokens is not None
            assert mine.tokens.tolist() == other.tokens.tolist()


def replays(one: Launching, plan: StepPlan, wanted: Wanted = Wanted.LIKELIEST) -> int:
    """Launches of recorded work in a step, whose results must be those of the reference."""
    before = one.device.counts["replay"]
    given = one.launcher.launch(plan, wanted).wait()
    expected = one.reference.forward(plan)
    if given.tokens is not None:
        assert given.tokens.tolist() == expected.logits.argmax(dim=-1).tolist()
    else:
        torch.testing.assert_close(given.logits, expected.logits, rtol=1e-4, atol=1e-4)
    assert np.array_equal(given.top_ids, expected.top_ids)
    return one.device.counts["replay"] - before


def test_what_has_no_recorded_form_is_computed_all_the_same(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    few = path(5)
    assert replays(one, few) == 1
    # These are the layers alone.
    assert replays(one, few, Wanted.LOGITS) == 1
    assert (
        replays(
            one,
            replace(
                few, sample_rows=np.array([4], np.int32), top_rows=np.arange(5, dtype=np.int32)
            ),
        )
        == 1
    )
    assert replays(one, replace(few, sample_rows=np.zeros(0, np.int32))) == 1
    # More rows than the largest bucket.
    assert replays(one, forest(129)) == 0
    # More pages than the arrays of recorded work.
    pages = np.zeros((1 << 16) + 1, np.int32)
    pages[: len(PAGES)] = PAGES
    many = replace(few, page_ids=pages, page_indptr=np.array([0, len(pages)], np.int32))
    assert replays(one, many) == 0
    assert replays(one, few) == 1


def test_steps_that_are_too_long_for_recorded_work_are_logged(
    tiny: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = Launching.of(tiny, recorded=True)
    pages = np.zeros((1 << 16) + 1, np.int32)
    pages[: len(PAGES)] = PAGES
    few = path(5)
    many = replace(few, page_ids=pages, page_indptr=np.array([0, len(pages)], np.int32))
    # What is documented to have no recorded form is no news.
    for plan in (few, forest(129)):
        one.launcher.launch(plan, Wanted.LIKELIEST).wait()
    one.launcher.launch(few, Wanted.LOGITS).wait()
    assert not caplog.records
    for _ in range(3):
        one.launcher.launch(many, Wanted.LIKELIEST).wait()
    # The first and the second.
    assert [record.args for record in caplog.records] == [
        ("page ids", 65_537, "layers", 65_536, count) for count in (1, 2)
    ]


def test_nothing_is_recorded_while_serving(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    before = one.device.counts["record"]
    for rows in (1, 3, 20, 100, 129):
        one.launcher.launch(forest(rows), Wanted.LIKELIEST).wait()
    assert one.device.counts["record"] == before > 0


def test_moves_are_made_before_the_rows_are_computed(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    replays(one, path(50))
    moved = StepPlan.single(
        [7], kv_len=50, pages=[1, 3, 4, 9], moves=[(s, s - 32) for s in range(48, 64)]
    )
    assert replays(one, moved) == 1


def test_every_step_of_tokens_is_one_launch_whatever_of_its_rows_is_sampled(tiny: Path) -> None:
    one = Launching.of(tiny, recorded=True)
    for rows in (1, 3, 20, 60, 64, 70, 128):
        assert replays(one, forest(rows)) == 1
    # Prompts beside decoding: few of more than 64 rows are sampled, and more of fewer.
    prompt = StepPlan.single(tokens(90, 200), kv_len=0, pages=range(6, 12), sample_rows=[89])
    assert replays(one, prompt) == 1
    assert replays(one, StepPlan.joined([forest(30), prompt])) == 1
    assert replays(one, StepPlan.joined([path(33, pages=(13, 14, 15)), prompt])) == 1
    topped = replace(prompt, top_rows=np.array([89], np.int32))
    assert replays(one, topped) == 1


def test_recording_says_how_far_it_is(tiny: Path) -> None:
    one = Launching.of(tiny)
    lines: list[str] = []
    one.launcher.record(lines.append)
    assert len(lines) == 2
    assert "graphs" in lines[-1]


def test_a_fake_device_does_nothing_before_the_host_waits() -> None:
    device = FakeDevice()
    source, target = device.pinned(1), torch.zeros(1, dtype=torch.int32)
    source[0] = 5
    device.copy(target, source)
    done = device.event()
    done.record()
    source[0] = 6
    assert not done.is_reached
    assert int(target[0]) == 0
    done.wait()
    assert int(target[0]) == 6
