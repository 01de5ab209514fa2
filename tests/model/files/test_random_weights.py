"""Weights that are drawn: a model of any size runs without a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from bench.gpu.simulated import simulated_gpu
from spectrie.errors import ModelError
from spectrie.model import Runner, load_runner
from spectrie.model.files.checkpoint import RANDOM_WEIGHTS
from spectrie.model.files.random_weights import RandomWeights
from spectrie.model.plan import StepPlan

pytestmark = pytest.mark.usefixtures("own_cache")
PLAN = StepPlan.single([1, 2, 3], kv_len=0, pages=[0])


@pytest.fixture
def drawn(tiny: Path, tmp_path: Path) -> Path:
    """The tiny model without its weights."""
    shutil.copy(tiny / "config.json", tmp_path)
    (tmp_path / RANDOM_WEIGHTS).write_text("{}", encoding="utf-8")
    return tmp_path


def load(folder: Path, device: str) -> Runner:
    return load_runner(folder, device=device, dtype="float32", threads=1, num_pages=30)


def test_a_model_without_weights_runs_if_it_says_that_they_are_drawn(drawn: Path) -> None:
    logits = load(drawn, "cpu").forward(PLAN).clone()
    assert logits.isfinite().all()
    assert logits.std() > 0.1
    assert torch.equal(load(drawn, "cpu").forward(PLAN), logits)
    with simulated_gpu():
        torch.testing.assert_close(load(drawn, "cuda").forward(PLAN), logits, rtol=1e-3, atol=1e-3)


def test_it_is_another_model_than_that_of_the_weights(drawn: Path, tiny: Path) -> None:
    assert load(drawn, "cpu").model_hash != load(tiny, "cpu").model_hash


def test_without_that_word_missing_weights_are_an_error(drawn: Path) -> None:
    (drawn / RANDOM_WEIGHTS).unlink()
    with pytest.raises(ModelError, match="has no model"):
        load(drawn, "cpu")


def test_tensors_differ_by_name_and_products_keep_the_size_of_numbers() -> None:
    weights = RandomWeights("cpu")
    one, other = (weights.tensor(f"{name}.weight", (256, 512)) for name in "ab")
    assert not torch.equal(one, other)
    assert torch.equal(one, weights.tensor("a.weight", (256, 512)))
    product = torch.randn(64, 512) @ one.float().T
    assert 0.9 < float(product.std()) < 1.1
    assert weights.tensor("norm.weight", (8,)).eq(1).all()
    assert weights.tensor("q_proj.bias", (8,)).eq(0).all()
