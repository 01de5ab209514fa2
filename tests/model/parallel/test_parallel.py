"""Two ranks give the bits of one, and one that is lost ends the run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from spectrie.errors import ConfigError, RankLost
from spectrie.model import Runner, load_runner, machine
from spectrie.model.plan import StepPlan
from tests.cores import require_cores
from tests.model.families import save_family
from tests.model.ranks import OPTIONS, follower_ids, two_ranks
from tests.model.stepping import in_pieces, tokens

pytestmark = pytest.mark.usefixtures("own_cache")


def logits_of(runner: Runner) -> list[torch.Tensor]:
    """Of chunks, of a tree among other requests, and of cache moves."""
    ids = tokens(60, runner.vocabulary_size)
    chunks = in_pieces(runner, ids, [1, 40, 3, 16], list(range(4)))
    tree = StepPlan.single(
        [ids[40], 3, ids[41], 4],
        kv_len=40,
        pages=list(range(4)),
        parents=[-1, 0, 0, 2],
        top_rows=[0, 1, 2, 3],
        moves=[(50, 60)],
    )
    other = StepPlan.single(tokens(33, 200, 5), kv_len=0, pages=[20, 21, 22], sample_rows=[32])
    result = runner.step(StepPlan.joined([other, tree]))
    tops = torch.from_numpy(result.top_ids), torch.from_numpy(result.top_probabilities)
    return [chunks, result.logits.clone(), *tops]


# One with head norms, experts and a dense layer, one with biases, a tied head and, in three ranks' worth
# of heads, uneven shares.
@pytest.mark.parametrize(("name", "dtype"), [("qwen3_moe", "float32"), ("uneven", "bfloat16")])
def test_two_ranks_give_the_bits_and_the_fingerprint_of_one(
    name: str, dtype: str, tmp_path: Path
) -> None:
    if name == "uneven":
        sizes = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72}
        save_family("llama_tied_bias", tmp_path / name, **sizes)
    else:
        save_family(name, tmp_path / name)
    single = load_runner(tmp_path / name, dtype=dtype, **OPTIONS)
    expected = logits_of(single)
    with two_ranks(tmp_path / name, dtype=dtype) as runner:
        assert runner.info.ranks == 2
        assert runner.numeric_fingerprint == single.numeric_fingerprint
        for ours, theirs in zip(logits_of(runner), expected, strict=True):
            assert torch.equal(ours, theirs)
        runner.set_threads(2)
        assert torch.equal(logits_of(runner)[0], expected[0])
        # A plan that is refused leaves the ranks together.
        with pytest.raises(ValueError, match="page_ids"):
            runner.step(StepPlan.single([1], kv_len=0, pages=[9999]))
        assert torch.equal(logits_of(runner)[1], expected[1])
    assert not follower_ids()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hanging"])
def test_a_lost_rank_is_an_error_within_the_timeout(tiny: Path, how: signal.Signals) -> None:
    plan = StepPlan.single([1, 2, 3], kv_len=0, pages=[0])
    with two_ranks(tiny, dtype="float32", rank_timeout_s=4.0) as runner:
        runner.step(plan)
        runner.check()
        (child,) = follower_ids()
        os.kill(child, how)
        if how is signal.SIGKILL:
            with pytest.raises(RankLost, match=rf"rank 1 \(process {child}\) ended with .* -9"):
                while True:
                    runner.check()
                    time.sleep(0.01)
        with pytest.raises(RankLost, match=r"another rank is gone.*"):
            runner.step(plan)
    assert not follower_ids()


def test_a_rank_that_cannot_load_ends_the_others(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_cores(2)
    # Only the other rank reads its environment anew.
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    with pytest.raises(RankLost, match="rank 1 ended with exit code 1 while it was loading"):
        load_runner(tiny, dtype="float32", tensor_parallel=2, **OPTIONS)


def test_numbers_of_ranks_that_cannot_be_are_refused(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"tensor_parallel is 4; 6 heads over 2 .* 1 to 2 ranks"):
        load_runner(tiny, tensor_parallel=4)
    with pytest.raises(ConfigError, match="tensor_parallel is 0, expected at least 1"):
        load_runner(tiny, tensor_parallel=0)
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    with pytest.raises(ConfigError, match="tensor_parallel is 2, but this process may use 1 cores"):
        load_runner(tiny, tensor_parallel=2)
    assert not follower_ids()
