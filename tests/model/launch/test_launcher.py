"""Steps on a fake device, which does its work only when the host waits: see `bench/gpu/fake_device.py`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bench.gpu.fake_device import FakeDevice
from spectrie.model.decoder import decoder as decoders
from spectrie.model.decoder.decoder import Decoder
from spectrie.model.decoder.sizing import pieces
from spectrie.model.launch import launcher as launchers
from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import StepPlan, StepResult
from spectrie.model.step.wanted import Wanted
from tests.model.launch.launching import PAGES, Launching
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")


def both(folder: Path, *, recorded: bool = False) -> tuple[Launcher, Decoder, FakeDevice]:
    one = Launching.of(folder, recorded=recorded)
    return one.launcher, one.reference, one.device


def plans() -> list[StepPlan]:
    chunk = StepPlan.single(tokens(50, 200), kv_len=0, pages=PAGES, top_rows=range(50))
    tree = StepPlan.single(
        [1, 2, 3, 4, 5],
        kv_len=50,
        pages=PAGES,
        parents=[-1, 0, 0, 2, 1],
        sample_rows=[0, 2, 3],
        top_rows=range(5),
    )
    fresh = StepPlan.single(
        tokens(20, 200), kv_len=0, pages=[6, 5], sample_rows=[19], top_rows=[2, 19]
    )
    moved = StepPlan.single([7], kv_len=52, pages=PAGES, moves=[(9 * 16 + 4, 9 * 16 + 3)])
    unsampled = StepPlan.single([7, 8], kv_len=53, pages=PAGES, sample_rows=[])
    topped = replace(unsampled, top_rows=np.array([1], np.int32))
    long = StepPlan.single(tokens(90, 200), kv_len=0, pages=[10, 11, 12, 13, 14, 15])
    return [chunk, StepPlan.joined([fresh, tree]), moved, unsampled, topped, long]


def equal(given: StepResult, expected: StepResult) -> None:
    torch.testing.assert_close(given.logits, expected.logits, rtol=1e-4, atol=1e-4)
    assert np.array_equal(given.top_ids, expected.top_ids)
    np.testing.assert_allclose(
        given.top_probabilities, expected.top_probabilities, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("recorded", [False, True])
def test_a_launched_step_gives_what_the_reference_does(family: Path, recorded: bool) -> None:
    launcher, reference, _ = both(family, recorded=recorded)
    for plan in plans():
        equal(launcher.forward(plan), reference.forward(plan))


@pytest.mark.parametrize("recorded", [False, True])
def test_the_likeliest_tokens_come_without_logits(tiny: Path, recorded: bool) -> None:
    launcher, reference, _ = both(tiny, recorded=recorded)
    for plan in plans():
        given = launcher.launch(plan, Wanted.LIKELIEST).wait()
        expected = reference.forward(plan)
        assert given.logits.shape == (0, 200)
        assert given.tokens is not None
        assert given.tokens.dtype == np.int32
        assert given.tokens.tolist() == expected.logits.argmax(dim=-1).tolist()
        assert np.array_equal(given.top_ids, expected.top_ids)


def test_a_step_is_one_copy_in_one_copy_out_and_one_wait(tiny: Path) -> None:
    launcher, _, device = both(tiny)
    plan = StepPlan.single([1, 2, 3], kv_len=0, pages=PAGES, top_rows=[0, 1, 2])
    # Both pieces of pinned memory grow.
    for _ in range(2):
        launcher.launch(plan, Wanted.LIKELIEST).wait()
    device.counts.clear()
    launched = launcher.launch(plan, Wanted.LIKELIEST)
    # That memory's last use was over: nothing is in flight.
    assert device.counts.pop("wait") == 1
    launched.wait()
    assert device.counts == {"launch": 1, "copy": 2, "event": 1, "wait": 1}


@pytest.mark.parametrize("wanted", [Wanted.LOGITS, Wanted.LIKELIEST])
def test_a_head_of_many_rows_is_computed_in_pieces(
    tiny: Path, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, reference, _ = both(tiny)
    expected = [(plan, reference.forward(plan)) for plan in plans()]
    # So that there is no memory for more.
    for module in (launchers, decoders):
        monkeypatch.setattr(module, "pieces", partial(pieces, most=8))
    rows: list[int] = []
    head = Decoder.head

    def counted(decoder: Decoder, x: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        rows.append(len(which))
        return head(decoder, x, which)

    monkeypatch.setattr(Decoder, "head", counted)
    for plan, of_plan in expected:
        given = launcher.launch(plan, wanted).wait()
        if wanted is Wanted.LOGITS:
            equal(given, of_plan)
        else:
            assert given.tokens is not None
            assert given.tokens.tolist() == of_plan.logits.argmax(dim=-1).tolist()
            assert np.array_equal(given.top_ids, of_plan.top_ids)
    assert max(rows) == 8
    # The reference keeps logits, which are asked for, but not those of prompts' likeliest tokens.
    equal(reference.forward(expected[1][0]), expected[1][1])
    assert max(rows) == 8


@pytest.mark.parametrize("recorded", [False, True])
def test_no_pinned_memory_is_written_while_the_device_may_read_it(
    tiny: Path, recorded: bool
) -> None:
    launcher, reference, _ = both(tiny, recorded=recorded)
    steps = [StepPlan.single([7 * i + 1], kv_len=i, pages=PAGES) for i in range(6)]
    expected = [reference.forward(plan).logits.argmax(dim=-1).tolist() for plan in steps]
    assert len({one for (one,) in expected}) > 3
    # The device works only for a host that waits. Two steps are in flight at a time.
    given = []
    before = launcher.launch(steps[0], Wanted.LIKELIEST)
    for plan in steps[1:]:
        launched = launcher.launch(plan, Wanted.LIKELIEST)
        given.append(before.wait().tokens)
        before = launched
    given.append(before.wait().tokens)
    assert [one.tolist() for one in given if one is not None] == expected


def test_a_third_step_waits_for_the_first(tiny: Path) -> None:
    launcher, _, device = both(tiny)
    plans = [StepPlan.single([i], kv_len=i, pages=PAGES) for i in range(3)]
    launched = [launcher.launch(plan, Wanted.LIKELIEST) for plan in plans]
    assert not any(one.is_done for one in launched[1:])
    assert device.counts["wait"] == 3


def test_steps_larger_than_the_pinned_memory_make_it_grow(tiny: Path) -> None:
    launcher, reference, device = both(tiny)
    few = StepPlan.single([1], kv_len=0, pages=PAGES)
    launcher.launch(few, Wanted.LIKELIEST).wait()
    pages = np.arange(1 << 15, dtype=np.int32) % 16
    pages[: len(PAGES)] = PAGES
    many = replace(few, page_ids=pages, page_indptr=np.array([0, len(pages)], np.int32))
    equal(launcher.forward(many), reference.forward(many))
    pinned = device.counts["pinned"]
    launcher.forward(few)
    launcher.forward(many)
    assert device.counts["pinned"] <= pinned + 1


@pytest.mark.parametrize("recorded", [False, True])
def test_a_step_takes_the_tokens_that_the_one_before_it_draws(tiny: Path, recorded: bool) -> None:
    launcher, reference, device = both(tiny, recorded=recorded)
    assert launcher.starts_early == recorded
    tree = StepPlan.single([5, 8], kv_len=0, pages=PAGES, parents=[-1, 0])
    other = StepPlan.single([11], kv_len=0, pages=[6])
    first = StepPlan.joined([other, tree])
    # Of the sample rows 2, 0 and 2 once more.
    second = StepPlan.joined(
        [
            StepPlan.single([-4], kv_len=2, pages=PAGES, parents=[-1]),
            StepPlan.single([-2], kv_len=1, pages=[6], parents=[-1]),
            StepPlan.single([3, -4], kv_len=0, pages=[5]),
        ]
    )

    def tokens_of(plan: StepPlan) -> NDArray[np.int32]:
        return reference.forward(plan).logits.argmax(dim=-1).int().numpy()

    given = tokens_of(first)
    assert len(set(given)) == 3
    known = replace(second, row_token=np.array([given[2], given[0], 3, given[2]], dtype=np.int32))
    expected = tokens_of(known)
    before = launcher.launch(first, Wanted.LIKELIEST)
    device.counts.clear()
    launched = launcher.launch(second, Wanted.LIKELIEST, behind=before)
    # Recorded work takes them itself.
    assert (device.counts["replay"], device.counts["launch"]) == ((1, 0) if recorded else (0, 2))
    # The host has not seen the tokens yet.
    assert device.is_busy
    assert not before.is_done
    for one, drawn in ((before, given), (launched, expected)):
        result = one.wait().tokens
        assert result is not None
        assert result.tolist() == drawn.tolist()


def test_a_step_behind_logits_is_refused_before_anything_is_launched(tiny: Path) -> None:
    launcher, _, device = both(tiny)
    plan = StepPlan.single([1], kv_len=0, pages=PAGES)
    before = launcher.launch(plan, Wanted.LOGITS)
    device.counts.clear()
    with pytest.raises(ValueError, match="gives logits"):
        launcher.launch(plan, Wanted.LIKELIEST, behind=before)
    assert not device.counts
