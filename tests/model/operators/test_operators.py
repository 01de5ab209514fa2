"""The compiled decoder against the same decoder in plain torch, and the operators of a GPU likewise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from spectrie.model import load_runner
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.decoder import Decoder, DecoderWeights
from spectrie.model.files.weights import Weights
from spectrie.model.operators import Operators, OperatorSettings
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.operators.reference import ReferenceOperators
from spectrie.model.plan import StepPlan
from tests.model.stepping import tokens

pytestmark = pytest.mark.usefixtures("own_cache")


def settings(folder: Path, dtype: torch.dtype = torch.float32) -> OperatorSettings:
    config = ModelConfig.from_folder(folder)
    norms = None
    if config.head_norm:
        norms = (torch.rand(config.head_dim) + 0.5, torch.rand(config.head_dim) + 0.5)
    return OperatorSettings(
        config=config,
        dtype=dtype,
        device=torch.device("cpu"),
        num_pages=16,
        page_size=16,
        max_context=200,
        model_kv_heads=config.num_kv_heads,
        head_norms=(norms,) * config.num_layers,
    )


def reference(folder: Path, dtype: torch.dtype) -> Decoder:
    """The model with plain operators."""
    of_model = settings(folder, dtype)
    weights = DecoderWeights(of_model.config, Weights(folder), dtype, of_model.device)
    return Decoder(weights, ReferenceOperators(replace(of_model, head_norms=weights.head_norms)))


def plans() -> list[StepPlan]:
    chunk = StepPlan.single(tokens(50, 200), kv_len=0, pages=[3, 1, 4, 9])
    tree = StepPlan.single(
        [1, 2, 3, 4, 5],
        kv_len=50,
        pages=[3, 1, 4, 9],
        parents=[-1, 0, 0, 2, 1],
        sample_rows=[0, 2, 3],
        top_rows=range(5),
    )
    fresh = StepPlan.single(
        tokens(20, 200), kv_len=0, pages=[6, 5], sample_rows=[19], top_rows=[2, 19]
    )
    moved = StepPlan.single([7], kv_len=52, pages=[3, 1, 4, 9], moves=[(9 * 16 + 4, 9 * 16 + 3)])
    return [chunk, StepPlan.joined([fresh, tree]), moved]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.03)])
def test_the_compiled_decoder_equals_the_reference(
    family: Path, dtype: str, tolerance: float
) -> None:
    theirs = reference(family, getattr(torch, dtype))
    ours = load_runner(family, dtype=dtype, threads=2, num_pages=16, max_context=200)
    errors = []
    for plan in plans():
        got, want = ours.step(plan), theirs.forward(plan)
        errors.append((got.logits - want.logits).square().mean(dim=-1) / want.logits.var())
        if dtype == "float32":
            assert np.array_equal(got.top_ids, want.top_ids)
            np.testing.assert_allclose(
                got.top_probabilities, want.top_probabilities, rtol=1e-3, atol=1e-4
            )
    assert compared(errors, family, dtype).mean().sqrt() < tolerance


def compared(errors: list[torch.Tensor], family: Path, dtype: str) -> torch.Tensor:
    """Where two experts score nearly the same, rounding to bfloat16 decides which a row takes."""
    some_differ = dtype == "bfloat16" and ModelConfig.from_folder(family).mixture is not None
    ascending = torch.cat(errors).sort().values
    return ascending[: int(0.9 * len(ascending))] if some_differ else ascending


def test_attention_by_the_kernels_equals_the_reference(family: Path) -> None:
    torch.manual_seed(0)
    both = settings(family)
    sets: list[Operators] = [GpuOperators(both), ReferenceOperators(both)]
    for plan in plans():
        rows = len(plan.row_token)
        qkv = torch.randn(rows, both.config.qkv_size)
        results = []
        for operators in sets:
            operators.begin(plan)
            for layer in range(both.config.num_layers):
                result = operators.attend(layer, qkv)
            results.append(result)
        torch.testing.assert_close(results[0], results[1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.03)])
def test_the_exact_decoder_equals_the_reference(family: Path, dtype: str, tolerance: float) -> None:
    of_model = settings(family, getattr(torch, dtype))
    weights = DecoderWeights(
        of_model.config, Weights(family), of_model.dtype, of_model.device, exact=True
    )
    of_model = replace(of_model, head_norms=weights.head_norms)
    exact = Decoder(weights, GpuOperators(of_model))
    # Its norms take sums too.
    plain = Decoder(weights, ReferenceOperators(of_model))
    theirs = reference(family, of_model.dtype)
    for decoder in (exact, plain):
        errors = []
        for plan in plans():
            got, want = decoder.forward(plan).logits, theirs.forward(plan).logits
            assert got.dtype == torch.float32
            errors.append((got - want).square().mean(dim=-1) / want.var())
        assert compared(errors, family, dtype).mean().sqrt() < tolerance


def test_experts_by_the_kernels_equal_the_reference(tiny: Path) -> None:
    torch.manual_seed(0)
    both = settings(tiny)
    plan = plans()[1]
    rows = len(plan.row_token)
    scores, results = torch.randn(rows, 6), torch.randn(2 * rows, 48)
    for normalised in (False, True):
        given = []
        for operators in (GpuOperators(both), ReferenceOperators(both)):
            operators.begin(plan)
            ids, shares = operators.choose(scores, 2, normalised)
            given.append((ids, shares, operators.add_experts(results, ids, shares)))
        assert torch.equal(given[0][0], given[1][0])
        torch.testing.assert_close(given[0][1:], given[1][1:])


def test_contradicting_plans_are_refused_before_anything_moves(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=1, num_pages=8)
    good = StepPlan.single([1, 2, 3], kv_len=0, pages=[0])
    runner.forward(good)
    for change, message in (
        ({"row_slot": np.array([0, 1, 200], np.int32)}, r"row_slot\[2\] is 200, expected 2"),
        ({"page_ids": np.array([8], np.int32)}, r"page_ids\[0\] is 8, expected 0\.\.8"),
        ({"request_kind": np.array([5], np.int32)}, r"request_kind\[0\] is 5"),
        ({"row_token": np.array([0, 1, 200], np.int32)}, r"row_token holds 0\.\.200"),
        ({"row_parent": np.array([0, 1, 2], np.int64)}, r"plan\.row_parent"),
    ):
        values = {name: getattr(good, name) for name in StepPlan.__slots__} | change
        with pytest.raises(ValueError, match=message):
            runner.forward(StepPlan(**values))


def test_the_likeliest_tokens_by_selection_equal_the_reference(tiny: Path) -> None:
    torch.manual_seed(0)
    both = settings(tiny)
    logits = torch.randn(4, 1000)
    results = []
    for operators in (GpuOperators(both), ReferenceOperators(both)):
        ids, probabilities = torch.zeros(4, 8, dtype=torch.int32), torch.zeros(4, 8)
        operators.top_k(logits, ids, probabilities)
        results.append((ids, probabilities))
    assert torch.equal(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1])
