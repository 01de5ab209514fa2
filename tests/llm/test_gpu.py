"""`spectrie.LLM` on a GPU: drafts are verified, and their tokens are the model's own draws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.llm import LLM
from spectrie.model.launch.launcher import Launched
from spectrie.model.plan import StepResult
from tests.model.families import save_family
from tests.tiny_model import VOCABULARY_SIZE, write_tiny_model

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
        small_start((1, 8, 64)),
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


OPTIONS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.7},
    {"temperature": 1.2, "top_k": 9, "top_p": 0.9},
    {"temperature": 0.9, "typical_p": 0.8, "min_p": 0.01},
    {"temperature": 0.0, "repetition_penalty": 1.3, "frequency_penalty": 0.3},
    {"temperature": 0.8, "presence_penalty": 0.5, "logit_bias": {5: 3.0, 9: -100.0}},
    {"temperature": 1.0, "regex": "[a-z ]{30,60}"},
]


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_tiny_model(tmp_path_factory.mktemp("mixture") / "tiny")
    (folder / "generation_config.json").unlink()
    save_family("mixtral", folder, vocab_size=VOCABULARY_SIZE)
    return folder


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_mixture_of_experts_on_a_gpu_gives_the_answers_of_a_cpu(
    mixture: Path, temperature: float
) -> None:
    with LLM(mixture, device="cpu", dtype="float32", threads=1) as llm:
        given = [
            llm.generate(
                PROMPT, max_tokens=40, ignore_eos=True, seed=seed, temperature=temperature
            ).token_ids
            for seed in SEEDS
        ]
    drafted, accepted = answers(mixture, True, temperature=temperature)
    assert drafted == given
    assert accepted > 0


# Torch forms stand in for the kernels, so bits may differ from a CPU's, but no draw here does.
@pytest.mark.parametrize("options", OPTIONS)
def test_exact_arithmetic_on_a_gpu_gives_the_answers_of_a_cpu(
    folder: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LLM(folder, device="cpu", dtype="float32", threads=1) as llm:
        given = [
            llm.generate(PROMPT, max_tokens=40, ignore_eos=True, seed=seed, **options).token_ids
            for seed in SEEDS
        ]
    sent: list[int] = []
    wait = Launched.wait

    def counted(launched: Launched) -> StepResult:
        result = wait(launched)
        sent.append(len(result.logits))
        return result

    monkeypatch.setattr(Launched, "wait", counted)
    drafted, accepted = answers(folder, True, {"gpu_arithmetic": "exact"}, **options)
    assert drafted == given
    if "temperature" in options and len(options) == 1:
        assert accepted > 0
    # Only the check at the start has asked for logits.
    assert not any(sent[sent.index(0) :])


def test_logprobs_are_computed_from_logits_of_the_sampled_rows(folder: Path) -> None:
    with LLM(folder, device="cpu", dtype="float32", threads=1) as llm:
        expected = llm.generate(PROMPT, max_tokens=12, temperature=0.7, seed=3, logprobs=2)
    with simulated_gpu(), small_start((1, 8, 64)), LLM(folder, dtype="float32", threads=1) as llm:
        given = llm.generate(PROMPT, max_tokens=12, temperature=0.7, seed=3, logprobs=2)
    assert given.token_ids == expected.token_ids
    assert given.logprobs is not None
    assert expected.logprobs is not None
    assert len(given.logprobs) == len(expected.logprobs)
