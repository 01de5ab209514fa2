"""The compiled operators against plain torch, through the same decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from spectrie.model import load_runner
from spectrie.model.config import ModelConfig
from spectrie.model.operators import OperatorSettings
from spectrie.model.operators.base import Operators
from spectrie.model.operators.cpu import CpuOperators
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
        threads=2,
        head_norms=(norms,) * config.num_layers,
    )


def plans() -> list[StepPlan]:
    chunk = StepPlan.single(tokens(50, 200), kv_len=0, pages=[3, 1, 4, 9])
    tree = StepPlan.single([1, 2, 3, 4, 5], kv_len=50, pages=[3, 1, 4, 9], parents=[-1, 0, 0, 2, 1])
    fresh = StepPlan.single(tokens(20, 200), kv_len=0, pages=[6, 5])
    moved = StepPlan.single([7], kv_len=52, pages=[3, 1, 4, 9], moves=[(9 * 16 + 4, 9 * 16 + 3)])
    return [chunk, StepPlan.joined([fresh, tree]), moved]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 3e-2)])
def test_attention_equals_the_reference(family: Path, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    both = settings(family, dtype)
    sets: list[Operators] = [CpuOperators(both), ReferenceOperators(both)]
    for plan in plans():
        rows = len(plan.row_token)
        qkv = torch.randn(rows, both.config.qkv_size).to(dtype)
        results = []
        for operators in sets:
            operators.begin(plan)
            for layer in range(both.config.num_layers):
                # In two blocks, as the decoder does.
                half = rows // 2
                first = operators.attend(layer, qkv[:half], 0, half).clone() if half else qkv[:0]
                second = operators.attend(layer, qkv[half:], half, rows - half)
            results.append(torch.cat([first[:, : second.shape[1]], second]).float())
        torch.testing.assert_close(results[0], results[1], rtol=tolerance, atol=tolerance)


def test_attention_by_the_kernels_equals_the_reference(family: Path) -> None:
    torch.manual_seed(0)
    both = settings(family)
    sets: list[Operators] = [GpuOperators(both), ReferenceOperators(both)]
    for plan in plans():
        rows = len(plan.row_token)
        qkv = torch.randn(rows + 3, both.config.qkv_size)
        results = []
        for operators in sets:
            operators.begin(plan)
            for layer in range(both.config.num_layers):
                result = operators.attend(layer, qkv, 0, rows)
            results.append(result[:rows])
        torch.testing.assert_close(results[0], results[1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_row_operators_equal_the_reference(
    tiny: Path, dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(0)
    both = settings(tiny, dtype)
    ours, reference = CpuOperators(both), ReferenceOperators(both)
    config = both.config
    weight = torch.randn(config.hidden_size)
    for rows in (1, 2, 5, 128):
        residual = torch.randn(rows, config.hidden_size)
        delta = torch.randn(rows, config.hidden_size).to(dtype)
        mine, theirs = residual.clone(), residual.clone()
        for change in (None, delta):
            got = ours.add_norm(mine, change, weight)
            want = reference.add_norm(theirs, change, weight)
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
            torch.testing.assert_close(mine, theirs)
        both_halves = torch.randn(rows, 2 * config.intermediate_size).to(dtype)
        got, want = ours.gate(both_halves), reference.gate(both_halves)
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def test_tensors_of_a_wrong_shape_are_refused(tiny: Path) -> None:
    operators = CpuOperators(settings(tiny))
    weight = torch.ones(48)
    with pytest.raises(ValueError, match=r"expected contiguous torch\.float32 rows of 48"):
        operators.add_norm(torch.zeros(48, 2).T, None, weight)
    with pytest.raises(ValueError, match=r"is torch\.bfloat16 \(2, 160\)"):
        operators.gate(torch.zeros(2, 160, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="delta has 3 rows, expected 2"):
        operators.add_norm(torch.zeros(2, 48), torch.zeros(3, 48), weight)
    with pytest.raises(ValueError, match="attend before begin"):
        operators.attend(0, torch.zeros(2, operators._qkv_size), 0, 2)


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


def test_the_likeliest_tokens_equal_the_reference(tiny: Path) -> None:
    torch.manual_seed(0)
    both = settings(tiny)
    ours, reference = CpuOperators(both), ReferenceOperators(both)
    for rows, width in ((1, 200), (5, 49_152), (3, 5), (2, 8)):
        logits = torch.randn(rows, width) * 5
        # Ties go to the lowest id; NaN and minus infinity are passed over.
        for row in (logits, logits.round(), logits.where(logits > 3, float("-inf"))):
            with_nan = row.clone()
            with_nan[0, 0] = float("nan")
            for case in (row, with_nan):
                ids, probabilities = ours.top_k(case)
                expected_ids, expected = reference.top_k(case)
                assert torch.equal(ids, expected_ids)
                torch.testing.assert_close(probabilities, expected, rtol=2e-5, atol=1e-7)
    for value in (float("nan"), float("inf"), float("-inf")):
        for operators in (ours, reference):
            ids, probabilities = operators.top_k(torch.full((2, 300), value))
            assert (ids == -1).all() and (probabilities == 0).all()


def test_the_likeliest_tokens_by_selection_equal_the_reference(tiny: Path) -> None:
    torch.manual_seed(0)
    both = settings(tiny)
    logits = torch.randn(4, 1000)
    ids, probabilities = GpuOperators(both).top_k(logits)
    expected_ids, expected = ReferenceOperators(both).top_k(logits)
    assert torch.equal(ids, expected_ids)
    torch.testing.assert_close(probabilities, expected)
