"""Heads of low rank: their factors, what stands for all tokens in training, and that serving finds the same."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spectrie.model import load_runner
from spectrie.training.batches import Batch, Level, collate
from spectrie.training.export import export_head
from spectrie.training.kinds import weighed
from spectrie.training.kinds.weighed import Weighed
from spectrie.training.low_rank import CANDIDATES, LowRank, factors, fit_low_rank
from tests.model.drafters.session import Request, draft_path, feed
from tests.training.conftest import LEVELS, SETTINGS, TOP, Setting
from tests.training.plain import PlainTarget
from tests.training.test_trainer import SHORT, exported

VOCABULARY, HIDDEN, RANK = 300, 24, 6
RANDOM = torch.Generator().manual_seed(7)
ROWS = torch.randn(VOCABULARY, HIDDEN, dtype=torch.float64, generator=RANDOM)
SPREAD = torch.logspace(1, -1, HIDDEN, dtype=torch.float64)
STATES = torch.randn(2000, HIDDEN, dtype=torch.float64, generator=RANDOM) * SPREAD
"""Long in some directions, short in others, as states are."""
MOMENT = STATES.T @ STATES / len(STATES)
ROOTS = (5, 18, 33, 50)


def lost(down: torch.Tensor, basis: torch.Tensor, states: torch.Tensor = STATES) -> float:
    """Mean squared length of what the factors lose of the logits."""
    near = states @ down.T @ basis.T @ ROWS.T
    return float((states @ ROWS.T - near).pow(2).sum(1).mean())


@pytest.mark.parametrize("rank", [1, RANK, HIDDEN - 1])
def test_factors_lose_what_no_others_could_keep(rank: int) -> None:
    # Of all matrices of a rank, the truncated decomposition is nearest.
    values = torch.linalg.svdvals(STATES @ ROWS.T) / math.sqrt(len(STATES))
    assert lost(*factors(ROWS, MOMENT, rank)) == pytest.approx(
        float(values[rank:].pow(2).sum()), rel=1e-4
    )


def test_factors_of_the_head_alone_lose_more_of_uneven_states() -> None:
    plain = factors(ROWS, torch.eye(HIDDEN), RANK)
    values = torch.linalg.svdvals(ROWS)
    even = torch.randn(20_000, HIDDEN, dtype=torch.float64, generator=RANDOM)
    assert lost(*plain, even) == pytest.approx(float(values[RANK:].pow(2).sum()), rel=0.03)
    assert lost(*plain) > 3 * lost(*factors(ROWS, MOMENT, RANK))


def test_states_of_few_directions_are_kept_whole() -> None:
    few = STATES[:, :3] @ torch.randn(3, HIDDEN, dtype=torch.float64, generator=RANDOM)
    found = factors(ROWS, few.T @ few / len(few), RANK)
    assert all(bool(factor.isfinite().all()) for factor in found)
    whole = float((few @ ROWS.T).pow(2).sum(1).mean())
    assert lost(*found, few) < 1e-6 * whole


@pytest.mark.parametrize("rank", [0, HIDDEN + 1])
def test_a_rank_beyond_the_states_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank is {rank}, expected 1 to {HIDDEN}"):
        fit_low_rank(ROWS, MOMENT, rank)


def test_a_whole_rank_finds_what_is_likeliest() -> None:
    rows, states = ROWS.float(), STATES.float()
    low_rank = fit_low_rank(rows, MOMENT, HIDDEN)
    logits = states @ rows.T
    kept = low_rank.kept(states, logits)
    assert int(kept.isfinite().sum()) == len(states) * CANDIDATES
    assert torch.equal(kept.topk(8).indices, logits.topk(8).indices)


def test_factors_are_what_is_stored() -> None:
    low_rank = fit_low_rank(ROWS.float(), MOMENT, RANK)
    again = LowRank.of(ROWS.float(), low_rank.down.bfloat16(), low_rank.basis.bfloat16())
    assert torch.equal(again.up, low_rank.up)
    assert torch.equal(again.down, low_rank.down)


def level_of(labels: list[list[int]]) -> Level:
    ids, none = torch.tensor(labels), torch.zeros(0, dtype=torch.int64)
    shares = torch.full(ids.shape, 1 / ids.shape[1])
    return Level(torch.arange(len(ids)), none, ids, shares, ids[:, 0])


def test_drawn_tokens_stand_for_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighed, "_DRAWN", 60)
    rows, states = 0.2 * ROWS.float(), torch.ones(2, HIDDEN)
    level, own = level_of([[3, 7], [250, 1]]), torch.tensor([1, 3, 7, 250, 3])
    every = Weighed.of(rows, torch.arange(VOCABULARY))
    exact = float(every.loss(level, every.guess(states)))
    found, sums = [], []
    for seed in range(300):
        some = Weighed.drawn(rows, own, seed)
        assert some.added is not None
        assert len(some.head) == 4 + 60
        assert (some.places[own] >= 0).all()
        logits = some.guess(states)
        found.append(float(some.loss(level, logits)))
        sums.append((logits + some.added).exp().sum(1))
    mean = torch.stack(sums).mean(0)
    torch.testing.assert_close(mean, every.guess(states).exp().sum(1), rtol=0.05, atol=0)
    assert sum(found) / len(found) == pytest.approx(exact, rel=0.02)
    one, same = Weighed.drawn(rows, own, 5), Weighed.drawn(rows, own, 5)
    assert torch.equal(one.head, same.head)
    assert not torch.equal(one.head, Weighed.drawn(rows, own, 6).head)


def test_all_own_tokens_leave_nothing_to_draw() -> None:
    rows, states, level = ROWS.float(), STATES[:2].float(), level_of([[3, 7], [250, 1]])
    every = Weighed.of(rows, torch.arange(VOCABULARY))
    some = Weighed.drawn(rows, torch.arange(VOCABULARY), 0)
    assert torch.equal(some.loss(level, some.guess(states)), every.loss(level, every.guess(states)))


@pytest.fixture(params=["eagle2", "eagle3", "mtp", "peagle"])
def low(request: pytest.FixtureRequest, setting: Setting) -> Setting:
    """The tiny target with a kind of head that can be of low rank."""
    return Setting.of(setting.target.folder, request.param, rank=24)


def of_exact_features(low: Setting, chosen: range) -> Batch:
    """The samples with features that no cache has rounded."""
    batch = collate(low.samples, low.cache, chosen, LEVELS)
    plain = PlainTarget(low.target, low.taps, TOP, final_norm=low.kind in ("eagle2", "mtp"))
    features = torch.zeros_like(batch.features)
    texts = plain([low.samples[index].token_ids for index in chosen])
    for row, text in enumerate(texts):
        features[row, 1 : len(text.features)] = text.features[:-1]
    return replace(batch, features=features)


def test_a_runner_answers_as_plain_torch_with_exact_rows(low: Setting, tmp_path: Path) -> None:
    head = low.head_of_kind()
    trainer = low.trainer(head, replace(SETTINGS, epochs=1), tmp_path / "checkpoint.pt")
    whole = trainer.run()
    assert trainer.looks[-1].held_out.losses[0] < trainer.looks[0].held_out.losses[0]
    assert trainer.fit(low.target.head, 64)[0].top_1 == whole.top_1
    assert low.rank is not None
    result, covered = trainer.fit(low.target.head, low.rank)
    assert result.top_1[0] <= covered <= 1.0
    provenance = {"model_hash": "of a tiny target", "namespaces": None}
    export_head(head, tmp_path, dtype=torch.float32, provenance=provenance)
    runner = load_runner(
        low.target.folder, dtype="float32", num_pages=16, drafter=tmp_path, threads=1
    )
    assert runner.drafter is not None
    assert (runner.drafter.kind, runner.drafter.named_tokens) == (low.kind, None)
    chosen = low.held_out[:4]
    batch = of_exact_features(low, chosen)
    expected = answers(head, low.target.head, batch)
    length = batch.tokens.shape[1]
    for text, index in enumerate(chosen):
        tokens = low.samples[index].token_ids
        for root in ROOTS:
            request = Request(runner, range(4))
            feed(request, tokens[:root], 16)
            for level, answer in enumerate(draft_path(request, tokens[root : root + LEVELS])):
                place = batch.levels[level].rows.tolist().index(text * length + root + level)
                ids, probabilities = (of_level[place] for of_level in expected[level])
                assert answer.ids[0].tolist() == ids.tolist()
                given = torch.from_numpy(answer.probabilities[0])
                torch.testing.assert_close(given, probabilities, rtol=1e-3, atol=1e-5)
    runner.close()


@torch.no_grad()
def answers(
    head: torch.nn.Module, rows: torch.Tensor, batch: Batch
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The eight likeliest tokens of every row and their probabilities, by level, from the published tensors."""
    _, tensors = head.published()  # type: ignore[operator]
    down, basis = (
        next(one for name, one in tensors.items() if name.endswith(f"low_rank.{part}.weight"))
        for part in ("down", "basis")
    )
    found = []
    for states in head.named_states(batch):  # type: ignore[operator]
        near, exact = states @ down.T @ (rows @ basis).T, states @ rows.T
        candidates = near.topk(CANDIDATES).indices
        mixed = near.scatter(1, candidates, exact.gather(1, candidates))
        kept = torch.zeros_like(mixed).scatter(
            1, candidates, mixed.softmax(1).gather(1, candidates)
        )
        best = kept.topk(8)
        found.append((best.indices, best.values))
    return found


def test_a_killed_training_of_low_rank_ends_with_the_same_bytes(
    setting: Setting, tmp_path: Path
) -> None:
    folder = setting.target.folder
    low = Setting.of(folder, "eagle3", rank=24)
    whole = low.trainer(low.head_of_kind(), SHORT, tmp_path / "whole.pt")
    whole.run()
    whole.fit(low.target.head, 24)
    child = subprocess.run(
        [sys.executable, "-m", "tests.training.killed", str(folder), str(tmp_path), "eagle3", "24"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    again = low.trainer(low.head_of_kind(), SHORT, tmp_path / "killed.pt")
    assert 0 < again.step < again.total_steps
    again.run()
    again.fit(low.target.head, 24)
    assert exported(again, tmp_path / "again") == exported(whole, tmp_path / "whole")
    # A training with the cut is another one.
    cut = setting.trainer(setting.head(), SHORT, tmp_path / "killed.pt")
    assert cut.step == 0
