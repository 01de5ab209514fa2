"""A model on two ranks answers as on one, with speculation on, and reports a lost rank."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from spectrie.errors import SpectrieError
from spectrie.llm import LLM
from tests.cores import require_cores
from tests.model.ranks import follower_ids
from tests.tiny_model import write_tiny_model

PROMPTS = ["def print the class", "the of to is it that was", "return self in the def print"]


def answers(llm: LLM, max_tokens: int) -> list[Any]:
    """Greedy and sampled, of several prompts, repeated so that memory has something to draft."""
    found = []
    ways: list[Any] = [{"temperature": 0.0}, {"temperature": 0.9, "seed": 7, "top_p": 0.9}]
    for options in ways:
        for prompt in PROMPTS + PROMPTS[:1]:
            completion = llm.generate(prompt, max_tokens=max_tokens, ignore_eos=True, **options)
            found.append(completion.token_ids)
    return found


def compare(folder: Path, max_tokens: int, **options: Any) -> None:
    require_cores(2)
    with LLM(folder, **options, speculation="off") as llm:
        expected = answers(llm, max_tokens)
    # Were it measured, a hiccup of the machine in one question would keep all later ones away.
    with LLM(folder, **options, tensor_parallel=2, drafting_cost_ms=0.0) as llm:
        assert answers(llm, max_tokens) == expected
        drafted = llm.generate(PROMPTS[0], max_tokens=max_tokens, temperature=0, ignore_eos=True)
        assert drafted.speculation.drafted_tokens > 0, "nothing was speculated on"
        (rank,) = follower_ids()
        os.kill(rank, signal.SIGKILL)
        with pytest.raises(SpectrieError, match="rank"):
            for _ in range(2):
                llm.generate(PROMPTS[0], max_tokens=max_tokens, temperature=0)
    assert not follower_ids()


def test_two_ranks_give_the_tokens_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    folder = write_tiny_model(tmp_path / "tiny")
    compare(folder, 32, dtype="float32", threads=1, num_pages=64, bigrams="off")


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_two_ranks_give_the_real_models_tokens(dtype: str) -> None:
    from spectrie.model import resolve

    compare(resolve("smollm2-135m").folder, 48, dtype=dtype, threads=1, num_pages=128)
