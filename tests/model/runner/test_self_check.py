"""The check of exact arithmetic at the start: it refuses steps in which a row has other logits."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spectrie_kernels
from bench.gpu.simulated import NAME, simulated_gpu
from spectrie.errors import ConfigError
from spectrie.model import Runner, load_runner
from spectrie.model.decoder.decoder import DecoderWeights
from spectrie.model.files.measurements import Measurements
from spectrie.model.launch.launcher import Launcher
from spectrie.model.plan import PlanArrays, StepResult
from spectrie.model.runner.info import RunnerInfo
from spectrie.model.runner.self_check import differing_form

pytestmark = pytest.mark.usefixtures("own_cache")

VOCABULARY = 200
PAGE_SIZE = 16


class Recited:
    """A decoder whose logits name a row's path in the cache, and a fault added to them."""

    def __init__(self, fault: Callable[[PlanArrays], float]) -> None:
        self._fault = fault
        self._cache = np.zeros(PAGE_SIZE * 64, np.int64)
        self.steps: list[int] = []

    def forward(self, plan: PlanArrays) -> StepResult:
        self.steps.append(len(plan.row_token))
        self._cache[plan.row_slot] = plan.row_token
        logits = torch.tensor([self._path(plan, row) for row in plan.sample_rows.tolist()])
        logits = logits[:, None] + torch.arange(VOCABULARY) + self._fault(plan)
        return StepResult(logits.float(), np.empty((0, 8), np.int32), np.empty((0, 8), np.float32))

    def set_threads(self, threads: int) -> None:
        pass

    def _path(self, plan: PlanArrays, row: int) -> int:
        request = int(np.searchsorted(plan.request_row_start, row, side="right")) - 1
        start, cached = int(plan.request_row_start[request]), int(plan.request_kv_len[request])
        first, end = plan.page_indptr[request : request + 2]
        pages, within = plan.page_ids[first:end].tolist(), row - start
        seen = list(range(cached + within + 1))
        if plan.request_kind[request]:
            word = int(plan.row_ancestors[row])
            seen = [i for i in seen if i < cached or word >> (i - cached) & 1]
        total = 0
        for index in seen:
            slot = pages[index // PAGE_SIZE] * PAGE_SIZE + index % PAGE_SIZE
            total = (total * 31 + int(self._cache[slot]) + 1) % 100_003
        return total


def runner_of(
    fault: Callable[[PlanArrays], float] = lambda plan: 0.0,
    *,
    num_pages: int = 64,
    max_context: int = 512,
    max_batch_rows: int = 1024,
) -> tuple[Runner, Recited]:
    info = RunnerInfo(
        vocabulary_size=VOCABULARY,
        eos_token_ids=[],
        bigram_prefix=list,
        max_context=max_context,
        num_pages=num_pages,
        page_size=PAGE_SIZE,
        max_batch_rows=max_batch_rows,
        kv_bytes=0,
        dtype_name="float32",
        device_name=NAME,
        model_hash="",
        arithmetic="",
        exact=True,
        can_speculate=True,
    )
    decoder = Recited(fault)
    return Runner(decoder, info, Measurements(None), 1), decoder


@pytest.mark.parametrize("max_batch_rows", [4096, 512, 60, 3])
@pytest.mark.parametrize("num_pages", [64, 4])
def test_rows_that_are_always_the_same_pass(max_batch_rows: int, num_pages: int) -> None:
    runner, decoder = runner_of(max_batch_rows=max_batch_rows, num_pages=num_pages)
    assert differing_form(runner) is None
    assert 1 in decoder.steps
    assert max(decoder.steps) <= max_batch_rows
    if max_batch_rows >= 512:
        assert {1, 2, 8, 16, 32, 64, 65, 128, 192, 256, 384, 512} <= set(decoder.steps)
        assert (513 in decoder.steps) == (max_batch_rows > 512)
        assert (204 in decoder.steps) == (num_pages == 64)


def number_of_rows(plan: PlanArrays) -> int:
    return len(plan.row_token)


@pytest.mark.parametrize(
    ("fault", "form"),
    [
        (lambda plan: float(number_of_rows(plan) == 204), "at the end of a prompt"),
        (lambda plan: float(plan.request_kv_len[0] == 102), "at the end of a prompt in pieces"),
        (lambda plan: float(plan.request_kind[0] == 1), "in a tree"),
        (lambda plan: float(number_of_rows(plan) == 2), "beside 1 others"),
        (lambda plan: 0.01 * (number_of_rows(plan) == 65), "beside 64 others"),
        # In the largest recorded step, and in one that is not recorded.
        (lambda plan: 0.01 * (number_of_rows(plan) == 512), "beside 511 others"),
        (lambda plan: 0.01 * (number_of_rows(plan) > 512), "beside 512 others"),
    ],
)
def test_a_step_in_which_a_row_has_other_logits_is_named(
    fault: Callable[[PlanArrays], float], form: str
) -> None:
    runner, _ = runner_of(fault)
    assert differing_form(runner) == form


def test_a_cache_too_small_to_tell_is_refused_where_exactness_was_asked_for() -> None:
    runner, _ = runner_of(num_pages=1)
    with pytest.raises(ConfigError, match="the cache has 1 pages"):
        differing_form(runner)
    assert differing_form(runner, is_asked=False) is not None


@pytest.fixture
def broken_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The products of the head depend on the number of rows."""
    sound = spectrie_kernels.linear

    def broken(
        x: torch.Tensor, weight: spectrie_kernels.LinearWeight, *places: Any, **options: Any
    ) -> torch.Tensor:
        is_head = weight.out_features == VOCABULARY
        return sound(x, weight, *places, **options).mul_(1 + is_head * x.shape[0] / 1000)

    monkeypatch.setattr(spectrie_kernels, "linear", broken)


@pytest.mark.usefixtures("broken_head")
def test_a_product_that_depends_on_the_number_of_rows_starts_no_exact_model(tiny: Path) -> None:
    with (
        simulated_gpu(),
        pytest.raises(
            ConfigError,
            match=r"at the end of a prompt .*\(products: head of \d+ x \d+\): choose 'fast'",
        ),
    ):
        load_runner(tiny, dtype="float32", threads=1, num_pages=30, gpu_arithmetic="exact")


@pytest.mark.usefixtures("broken_head")
def test_where_exactness_was_not_asked_for_a_faulty_product_makes_arithmetic_fast(
    tiny: Path,
) -> None:
    lines: list[str] = []
    with simulated_gpu():
        runner = load_runner(tiny, dtype="float32", threads=1, num_pages=30, progress=lines.append)
    assert not runner.exact
    assert runner.why_fast is not None
    assert "head of" in runner.why_fast
    assert "/fast/" in runner.numeric_fingerprint
    assert lines.count("reading weights") == 2
    assert any(line.startswith("reading weights again for fast arithmetic: ") for line in lines)


@pytest.mark.usefixtures("broken_head")
def test_the_first_model_is_gone_before_its_weights_are_read_again(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[list[str]] = []
    loaded: list[dict[str, weakref.ref[Any]]] = []
    sound = DecoderWeights.__init__

    def watched(weights: DecoderWeights, *given: Any, **options: Any) -> None:
        alive.append([name for one in loaded for name, ref in one.items() if ref() is not None])
        sound(weights, *given, **options)
        loaded.append({"weights": weakref.ref(weights)})

    def launching(launcher: Launcher, *given: Any, **options: Any) -> None:
        started(launcher, *given, **options)
        loaded[-1] |= {"launcher": weakref.ref(launcher), "cache": weakref.ref(given[1])}

    started = Launcher.__init__
    monkeypatch.setattr(DecoderWeights, "__init__", watched)
    monkeypatch.setattr(Launcher, "__init__", launching)
    gc.collect()
    gc.disable()
    try:
        with simulated_gpu():
            runner = load_runner(tiny, dtype="float32", threads=1, num_pages=30)
    finally:
        gc.enable()
    assert not runner.exact
    # A GPU has no room for both.
    assert alive == [[], []]
    assert [sorted(one) for one in loaded] == [["cache", "launcher", "weights"]] * 2
