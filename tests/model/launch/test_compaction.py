"""A step brings the rows that its tokens accept to their places, in its own launch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from tests.model.launch.launching import PAGES, Launching
from tests.model.stepping import tokens


@pytest.fixture(scope="module", params=[False, True], ids=["launched", "recorded"])
def one(
    request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Launching]:
    """A launcher of steps whose work is recorded or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Launching.of(tiny, recorded=request.param)


PROMPT = tokens(20, 200)


def answer(one: Launching, count: int) -> list[int]:
    """What plain decoding goes on with."""
    one.launcher.forward(StepPlan.single(PROMPT, kv_len=0, pages=PAGES))
    found = [7]
    for done in range(len(PROMPT), len(PROMPT) + count):
        step = StepPlan.single(found[-1:], kv_len=done, pages=PAGES, parents=[-1])
        given = one.launcher.launch(step, Wanted.LIKELIEST).wait()
        assert given.tokens is not None
        found.append(int(given.tokens[0]))
    return found


def cache_of(one: Launching, count: int) -> torch.Tensor:
    """Keys and values of the first tokens."""
    slots = [PAGES[i // 16] * 16 + i % 16 for i in range(count)]
    return torch.stack([one.operators._keys[:, slots], one.operators._values[:, slots]])


def tree(path: list[int]) -> StepPlan:
    """Two wrong siblings before each token of the path, whose rows are 0, 3, 6, 9, ..."""
    ids, parents = path[:1], [-1]
    for index, token in enumerate(path[1:]):
        ids += [(token + 1) % 200, (token + 2) % 200, token]
        parents += 3 * [3 * index]
    return StepPlan.single(ids, kv_len=len(PROMPT), pages=PAGES, parents=parents)


@pytest.mark.parametrize("right", [0, 1, 4])
def test_accepted_rows_are_where_plain_decoding_has_them(one: Launching, right: int) -> None:
    found = answer(one, 5)
    length = len(PROMPT) + right + 1
    expected = cache_of(one, length)
    one.operators._keys[:, PAGES[1] * 16 + 4 :].zero_()
    one.launcher.forward(StepPlan.single(PROMPT, kv_len=0, pages=PAGES))
    path = [*found[: right + 1], *((token + 9) % 200 for token in found[right + 1 :])]
    before = one.device.counts["replay"]
    given = one.launcher.launch(tree(path), Wanted.LIKELIEST).wait()
    assert given.compacted
    assert one.device.counts["replay"] - before == bool(one.launcher.recorded_rows)
    torch.testing.assert_close(cache_of(one, length), expected, rtol=1e-4, atol=1e-4)


def test_a_step_of_logits_leaves_rows_where_they_are(one: Launching) -> None:
    found = answer(one, 3)
    plan = tree(found[:3])
    given = one.launcher.launch(plan, Wanted.LOGITS).wait()
    assert not given.compacted
    there = one.operators._keys[:, plan.row_slot[[3, 1]].tolist()]
    assert not torch.equal(there[:, 0], there[:, 1])


def test_walks_go_along_trees_whose_rows_are_all_sampled() -> None:
    from spectrie.model.step.packed import _walks

    found = tree([1, 2, 3])
    some = StepPlan.single([1, 2], kv_len=3, pages=[6], parents=[-1, 0], sample_rows=[1])
    single = StepPlan.single([1], kv_len=3, pages=[7], parents=[-1])
    prompt = StepPlan.single([1, 2], kv_len=3, pages=[8])
    walks = _walks(StepPlan.joined([some, single, found, prompt]))
    assert walks.dtype == np.int32
    assert walks.tolist() == [[3, 7, 2, 0]]
