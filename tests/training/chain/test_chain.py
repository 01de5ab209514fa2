"""All kinds of drafters, trained from nothing: each learns something, and text and drafter together beat either."""

from __future__ import annotations

import pytest

from tests.training.chain.conftest import Chain, depth

pytestmark = pytest.mark.timeout(1800)
"""The first test of a run trains the target."""

ALL = ("eagle3", "eagle2", "mtp", "peagle", "dflash", "dflash2", "draft_model")
KINDS = [pytest.param(kind, marks=depth(kind)) for kind in ALL]


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_drafter_is_accepted_more_often_than_before_training(
    chain: Chain, kind: str
) -> None:
    before, after = (chain.counts(one) for one in (chain.untrained(kind), chain.head(kind)))
    print(f"{kind}: {before.alone:.3f} {before.right}, trained {after.alone:.3f} {after.right}")
    assert after.alone > 1.5 * before.alone


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_a_drafter_are_accepted_more_often_than_either_alone(
    chain: Chain, kind: str
) -> None:
    found, text = chain.counts(chain.head(kind)), chain.answered.replay("off")
    print(f"{kind}: {found.alone:.3f} alone, {text:.3f} text, {found.mixed:.3f} mixed")
    assert found.mixed > found.alone
    assert found.mixed > text


@pytest.mark.deep
def test_text_and_a_block_are_accepted_more_often_than_ddtree(chain: Chain) -> None:
    found = chain.counts(chain.head("dflash"))
    print(f"dflash: {found.mixed:.3f} mixed, DDTree {found.block_tree:.3f}")
    assert found.mixed > found.block_tree
