"""`spectrie.LLM` on a GPU: drafts are verified, and their tokens are the model's own draws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.simulated import simulated_gpu
from spectrie.llm import LLM
from tests.tiny_model import write_tiny_model

PROMPT = "def print the class"
SEEDS = (0, 1, 0, 1)
"""Each answer twice: where drawn text does not repeat itself, the second one repeats the first."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def answers(
    folder: Path, speculation: bool, model: dict[str, Any] | None = None, **options: Any
) -> tuple[list[tuple[int, ...]], int]:
    """Token ids of a few answers of a GPU, and how many of them were accepted drafts."""
    with (
        simulated_gpu(),
        LLM(
            folder,
            dtype="float32",
            threads=1,
            speculation=speculation,
            drafting_cost_ms=0,
            **(model or {}),
        ) as llm,
    ):
        given = [
            llm.generate(PROMPT, max_tokens=40, ignore_eos=True, seed=seed, **options)
            for seed in SEEDS
        ]
    return [one.token_ids for one in given], sum(one.speculation.accepted_tokens for one in given)


# In float32 the order of addition moves no draw of these answers; with fewer bits it might.
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_drafts_on_a_gpu_are_accepted_where_the_model_draws_them(
    folder: Path, temperature: float
) -> None:
    plain, none = answers(folder, speculation=False, temperature=temperature)
    drafted, accepted = answers(folder, speculation=True, temperature=temperature)
    assert drafted == plain
    assert none == 0
    assert accepted > 0


# Torch forms stand in for the kernels, so bits may differ from a CPU's, but no draw here does.
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_exact_arithmetic_on_a_gpu_gives_the_answers_of_a_cpu(
    folder: Path, temperature: float
) -> None:
    with LLM(folder, device="cpu", dtype="float32", threads=1) as llm:
        given = [
            llm.generate(
                PROMPT, max_tokens=40, ignore_eos=True, seed=seed, temperature=temperature
            ).token_ids
            for seed in SEEDS
        ]
    exact = {"gpu_arithmetic": "exact"}
    drafted, accepted = answers(folder, True, exact, temperature=temperature)
    assert drafted == given
    assert accepted > 0
