"""Attention that differs from torch's is a fault, whatever its time."""

from __future__ import annotations

import itertools

import pytest
import torch

import spectrie_kernels
from bench.gpu.check import Settings, Wrong
from bench.gpu.kernels import attention_speed
from bench.gpu.kernels.attention_speed import items, prompt_items

DEVICE = {"copy_bytes_per_second": 1e9, "matrix_flops_per_second": 1e9}
SETTINGS = Settings(dry=True, scratch="", model=None, tests=(), device=DEVICE)

pytestmark = pytest.mark.filterwarnings("ignore:.*flex_attention")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def test_trees_and_prompts_equal_torch_and_have_shares() -> None:
    for item in [*items(SETTINGS), *prompt_items(SETTINGS)]:
        values = item.run()
        assert values["difference"] < 1e-5
        assert values["torch_over_ours"] == 1.0  # the clock counts
        assert isinstance(values["rivals"]["flex"], float)
        assert values.get("share_of_copy") or values.get("share_of_matrix")


def test_a_tree_that_sees_all_of_itself_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    right = spectrie_kernels.tree_attention

    def wrong(query: torch.Tensor, *rest: object, **options: object) -> torch.Tensor:
        return right(query.flip(0), *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(attention_speed, "tree_attention", wrong)
    plain, trees = items(SETTINGS)
    plain.run()  # one row has nothing to be mixed up with
    with pytest.raises(Wrong, match="differs from torch"):
        trees.run()


def test_trees_of_every_size_are_measured_at_every_context() -> None:
    measured = {(one.kv_len, one.rows) for one in attention_speed._FOREST if one.requests == 1}
    wanted = itertools.product((1024, 4096, 8192, 16_384, 32_768), (1, 4, 16, 64))
    assert measured >= set(wanted)
