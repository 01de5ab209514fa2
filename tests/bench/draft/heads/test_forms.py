"""Forms in which a head can name tokens: what they weigh, and that a server reads what is written of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bench.draft.heads.forms import Form, load_head, ranked, write_form
from bench.draft.heads.vocabularies import count
from spectrie.model import load_runner
from spectrie.training.batches import Batch, Level
from spectrie.training.export import export_head
from spectrie.training.kinds.eagle3 import Eagle3
from spectrie.training.low_rank import CANDIDATES, fit_low_rank
from spectrie.training.target import Target
from tests.tiny_model import write_tiny_model

CUT = torch.tensor([2, 3, 5, 7, 11, 13])
LENGTH = 12


@pytest.fixture
def head(tmp_path: Path) -> Eagle3:
    target = Target(write_tiny_model(tmp_path / "model"))
    torch.manual_seed(3)
    made = Eagle3(target, (0, 1), CUT)
    provenance = {"model_hash": "of a tiny target", "namespaces": None}
    export_head(made, tmp_path / "head", dtype=torch.float32, provenance=provenance)
    return made


def forms_of(target: Target) -> list[Form]:
    vocabulary, hidden = target.head.shape
    whole = Form("all", (vocabulary, hidden))
    low_rank = fit_low_rank(target.head, torch.eye(hidden), hidden // 2)
    return [replace(whole, tokens=CUT), whole, replace(whole, low_rank=low_rank)]


def batch_of(target: Target, width: int) -> Batch:
    vocabulary = len(target.head)
    tokens = torch.randint(vocabulary, (1, LENGTH))
    rows = torch.arange(1, LENGTH)
    likeliest = torch.randint(vocabulary, (len(rows), 4))
    level = Level(rows, rows[:0], likeliest, torch.ones(likeliest.shape) / 4, likeliest[:, 0])
    return Batch(tokens, torch.randn(1, LENGTH, width), (level,))


def test_a_head_is_loaded_as_it_was_stored(head: Eagle3, tmp_path: Path) -> None:
    loaded = load_head(tmp_path / "head", Target(tmp_path / "model"))
    assert torch.equal(loaded.vocabulary, CUT)
    for name, value in head.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name


def test_tokens_are_ranked_by_the_cut_then_by_answers_then_by_number() -> None:
    order = ranked(torch.tensor([4, 1]), [6, 6, 3, 1, 2, 2], 8)
    assert order.tolist() == [1, 4, 2, 6, 3, 0, 5, 7]


def test_each_form_names_what_it_weighs(head: Eagle3, tmp_path: Path) -> None:
    target = Target(tmp_path / "model")
    vocabulary, hidden = target.head.shape
    torch.manual_seed(4)
    batch = batch_of(target, 2 * hidden)
    cut, whole, low = forms_of(target)
    found = count(head, target.head, [cut, whole, low], [batch])
    named = int(torch.isin(batch.levels[0].top_ids[:, 0], CUT).sum())
    assert (found[0].rows, found[0].named) == (LENGTH - 1, named)
    assert (found[1].named, found[1].first, found[1].eight) == (11, 11, 88)
    assert 0 < found[2].first <= 11
    states = next(head.named_states(batch))
    assert low.weighed(states).sum(1).tolist() == [CANDIDATES] * 11
    assert cut.weights == len(CUT) * hidden
    assert whole.weights == vocabulary * hidden
    assert low.weights == (hidden + vocabulary) * (hidden // 2) + CANDIDATES * hidden


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_server_reads_each_form(head: Eagle3, tmp_path: Path, number: int) -> None:
    form = forms_of(Target(tmp_path / "model"))[number]
    folder = write_form(tmp_path / "head", form, tmp_path / "form")
    runner = load_runner(tmp_path / "model", num_pages=8, threads=1, drafter=folder)
    assert runner.drafter is not None
    assert runner.drafter.named_tokens == (None if form.tokens is None else len(form.tokens))
    runner.close()
