"""Every family against transformers, and the same bits whatever the other rows of the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from spectrie.model import load_runner
from spectrie.model.plan import StepPlan
from tests.model.stepping import in_pieces, tokens

pytestmark = pytest.mark.usefixtures("own_cache")


def reference_logits(folder: Path, ids: list[int]) -> torch.Tensor:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([ids])).logits[0]
    return logits


def test_logits_equal_transformers(family: Path) -> None:
    runner = load_runner(family, dtype="float32", threads=1, num_pages=64)
    ids = tokens(150, runner.vocabulary_size)
    ours = in_pieces(runner, ids, [150], list(range(10)))
    theirs = reference_logits(family, ids)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert theirs.std() > 0.3, "logits too flat to tell anything"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_are_bitwise_equal_in_every_chunking(family: Path, dtype: str) -> None:
    runner = load_runner(family, dtype=dtype, threads=1, num_pages=64)
    ids = tokens(150, runner.vocabulary_size)
    whole = in_pieces(runner, ids, [150], list(range(10)))
    pieces = in_pieces(runner, ids, [1, 16, 60, 2, 71], list(range(30, 40)))
    single = in_pieces(runner, ids, [100] + [1] * 50, list(range(20, 10, -1)))
    assert torch.equal(whole, pieces)
    assert torch.equal(whole, single)


def test_tree_rows_and_their_company_leave_logits_bitwise_equal(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=2, num_pages=64)
    ids = tokens(60, runner.vocabulary_size)
    alone = in_pieces(runner, ids, [60], list(range(4)))
    in_pieces(runner, ids[:40], [40], [9, 8, 7, 6])
    tree = StepPlan.single(
        [ids[40], 3, ids[41], 4, ids[42], ids[43]],
        kv_len=40,
        pages=[9, 8, 7, 6],
        parents=[-1, 0, 0, 2, 2, 4],
    )
    other = StepPlan.single(tokens(33, 200, 5), kv_len=0, pages=[20, 21, 22])
    logits = runner.forward(StepPlan.joined([other, tree, other_at(other, 30)]))
    for row, position in ((0, 40), (2, 41), (4, 42), (5, 43)):
        assert torch.equal(logits[33 + row], alone[position]), position

    # The accepted path moves to where plain decoding would have written it.
    def slot(logical: int) -> int:
        return [9, 8, 7, 6][logical // 16] * 16 + logical % 16

    moves = [(slot(42), slot(41)), (slot(44), slot(42)), (slot(45), slot(43))]
    after = StepPlan.single([ids[44]], kv_len=44, pages=[9, 8, 7, 6], moves=moves)
    assert torch.equal(runner.forward(after)[0], alone[44])


def other_at(plan: StepPlan, page: int) -> StepPlan:
    pages = list(range(page, page + len(plan.page_ids)))
    return StepPlan.single(plan.row_token.tolist(), kv_len=0, pages=pages)


def test_batches_of_several_blocks_equal_small_ones_bitwise(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=2, num_pages=64)
    for count in (129, 257, 300):
        ids = tokens(count, runner.vocabulary_size, count)
        whole = in_pieces(runner, ids, [count], list(range(20)))
        pieces = in_pieces(runner, ids, [100] * (count // 100) + [count % 100], list(range(20)))
        assert torch.equal(whole, pieces), count


def test_only_sample_rows_have_logits(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=1, num_pages=64)
    ids = tokens(200, runner.vocabulary_size)
    pages = list(range(13))
    whole = runner.forward(StepPlan.single(ids, kv_len=0, pages=pages)).clone()
    for rows in ([199], [5, 130], [0, 1, 2], list(range(100, 133)), []):
        plan = StepPlan.single(ids, kv_len=0, pages=pages, sample_rows=rows)
        logits = runner.forward(plan)
        assert logits.shape == (len(rows), runner.vocabulary_size)
        assert logits.dtype == torch.float32
        assert torch.equal(logits, whole[rows])


def test_top_rows_give_the_likeliest_tokens_and_leave_logits_bitwise_equal(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=2, num_pages=64)
    ids = tokens(200, runner.vocabulary_size)
    pages = list(range(13))
    whole = runner.forward(StepPlan.single(ids, kv_len=0, pages=pages)).clone()
    probabilities, likeliest = whole.softmax(dim=-1).topk(8, dim=-1)
    for sample, top in (
        ([199], list(range(200))),
        ([5, 130], [5, 6, 130, 199]),
        ([0, 1, 2], [0, 1, 2]),
        ([], [127, 128]),
        ([7], []),
    ):
        plan = StepPlan.single(ids, kv_len=0, pages=pages, sample_rows=sample, top_rows=top)
        result = runner.step(plan)
        assert torch.equal(result.logits, whole[sample])
        assert result.top_ids.dtype == np.int32
        assert np.array_equal(result.top_ids, likeliest[top].numpy())
        np.testing.assert_allclose(result.top_probabilities, probabilities[top], 1e-5, 1e-6)
        if sample == top:
            assert result.tokens is not None
            assert result.tokens.tolist() == whole[sample].argmax(dim=-1).tolist()
        else:
            assert result.tokens is None
