"""Logits that some rows of a step send to the host beside the tokens of all: which, and how many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from spectrie.model.decoder.sizing import pieces
from spectrie.model.launch import launcher as launchers
from spectrie.model.launch.sent_logits import SentLogits
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from tests.model.launch.launching import Launching

VOCABULARY = 200
ROWS = 16


@pytest.fixture(scope="module", params=[False, True], ids=["launched", "recorded"])
def one(
    request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Launching]:
    """A launcher of steps whose work is recorded or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Launching.of(tiny, recorded=request.param)


def int32(*numbers: int) -> NDArray[np.int32]:
    return np.array(numbers, np.int32)


def forest() -> StepPlan:
    """Requests of one row each."""
    return StepPlan.joined(
        [StepPlan.single([7 * i % VOCABULARY], kv_len=0, pages=[i]) for i in range(ROWS)]
    )


def test_neighbours_are_sent_at_once() -> None:
    sent = SentLogits.of(int32(0, 1, 4, 6, 7, 8))
    assert sent.runs == ((0, 2), (4, 5), (6, 9))
    assert sent.rows == 6
    assert list(sent.parts(0, 9)) == [(0, slice(0, 2)), (2, slice(4, 5)), (3, slice(6, 9))]
    assert list(sent.parts(1, 7)) == [(1, slice(0, 1)), (2, slice(3, 4)), (3, slice(5, 6))]
    assert list(sent.parts(7, 9)) == [(4, slice(0, 2))]
    assert list(sent.parts(2, 4)) == []


def test_no_rows_send_nothing() -> None:
    for sent in (SentLogits.of(int32()), SentLogits.all_of(0)):
        assert (sent.runs, sent.rows, list(sent.parts(0, 9))) == ((), 0, [])
    assert SentLogits.all_of(3).runs == ((0, 3),)


@pytest.mark.parametrize("asking", [[], [0], [5], [3, 4, 5, 9], list(range(ROWS))])
def test_each_row_that_asks_sends_its_own_logits_and_no_others(
    one: Launching, asking: list[int]
) -> None:
    plan = forest()
    expected = one.reference.forward(plan)
    before = one.device.sent_bytes
    launched = one.launcher.launch(plan, Wanted.LIKELIEST, logit_samples=int32(*asking))
    given = launched.wait()
    # Tokens of all rows, which fill their bucket.
    assert one.device.sent_bytes - before == ROWS * 4 + len(asking) * VOCABULARY * 4
    assert given.tokens is not None
    assert given.tokens.tolist() == expected.logits.argmax(dim=-1).tolist()
    assert given.logits.shape == (len(asking), VOCABULARY)
    torch.testing.assert_close(given.logits, expected.logits[asking], rtol=1e-4, atol=1e-4)


def test_who_asks_changes_no_result_of_the_others(one: Launching) -> None:
    plan = forest()
    asked = one.launcher.launch(plan, Wanted.LIKELIEST, logit_samples=int32(2)).wait()
    plain = one.launcher.launch(plan, Wanted.LIKELIEST).wait()
    assert asked.tokens is not None
    assert plain.tokens is not None
    assert asked.tokens.tolist() == plain.tokens.tolist()


def test_a_row_that_asks_leaves_the_head_recorded(one: Launching) -> None:
    before = one.device.counts["replay"]
    one.launcher.launch(forest(), Wanted.LIKELIEST, logit_samples=int32(2)).wait()
    assert one.device.counts["replay"] - before == (1 if one.launcher.recorded_rows else 0)


@pytest.mark.parametrize("asking", [[5], [4, 5], [3, 5], [0, 3, 5, 6, 9, 15]])
def test_rows_that_ask_are_one_copy_wherever_they_are(one: Launching, asking: list[int]) -> None:
    def counts(*rows: int) -> dict[str, int]:
        one.device.counts.clear()
        one.launcher.launch(forest(), Wanted.LIKELIEST, logit_samples=int32(*rows)).wait()
        return {name: one.device.counts[name] for name in ("copy", "launch", "pinned")}

    counts(*asking)
    counts(*asking)
    nobody, somebody = counts(), counts(*asking)
    assert somebody["copy"] == nobody["copy"] + 1
    assert somebody["pinned"] == 0
    # Rows that are no neighbours are brought together first.
    is_lifted = len(SentLogits.of(int32(*asking)).runs) > 1
    assert somebody["launch"] == nobody["launch"] + is_lifted


def test_logits_of_a_head_computed_in_pieces_lie_behind_one_another(
    tiny: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Launching.of(tiny)
    expected = one.reference.forward(forest()).logits
    monkeypatch.setattr(launchers, "pieces", partial(pieces, most=4))
    # Runs that end with a piece, that go on in the next, and a piece without any.
    asking = [2, 3, 4, 5, 13, 15]
    launched = one.launcher.launch(forest(), Wanted.LIKELIEST, logit_samples=int32(*asking))
    torch.testing.assert_close(launched.wait().logits, expected[asking], rtol=1e-4, atol=1e-4)


def test_logits_stay_until_the_step_after_the_next(one: Launching) -> None:
    expected = one.reference.forward(forest()).logits
    first = one.launcher.launch(forest(), Wanted.LIKELIEST, logit_samples=int32(2))
    second = one.launcher.launch(forest(), Wanted.LIKELIEST, logit_samples=int32(9))
    for row, launched in ((2, first), (9, second)):
        torch.testing.assert_close(launched.wait().logits[0], expected[row], rtol=1e-4, atol=1e-4)
