"""Text behind a stop text is neither computed, learnt nor counted, however late a reader reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from spectrie.llm import LLM
from spectrie.types import Completion, SpeculationOptions
from tests.tiny_model import write_tiny_model
from tests.waiting import wait_until

PROMPT = "def print the class"
OPTIONS: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
MAX_TOKENS = 200
WAIT_S = 30.0


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    folder = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        with LLM(folder, dtype="float32", threads=1, num_pages=256, bigrams="off") as llm:
            yield llm


@pytest.fixture(scope="module")
def whole(llm: LLM) -> Completion:
    """The answer without a stop; nothing of it is learnt."""
    options: dict[str, Any] = {
        "max_tokens": MAX_TOKENS,
        "speculation": SpeculationOptions(learn=False),
        "namespace": "whole",
    }
    return llm.generate(PROMPT, **options, **OPTIONS)


@pytest.fixture(scope="module")
def stop(whole: Completion) -> str:
    """A text that comes early in the answer."""
    words: list[str] = re.findall("[a-z]{2,}", whole.text)
    return next(word for word in words if whole.text.index(word) > 20)


def wait_idle(llm: LLM) -> None:
    wait_until(
        lambda: not llm.load().running + llm.load().waiting, WAIT_S, lambda: "requests still run"
    )


def num_learnt(llm: LLM, namespace: str) -> int:
    return sum(one.num_tokens for one in llm._host.engine.namespaces() if one.name == namespace)


@pytest.mark.parametrize("predicted", [False, True])
def test_a_late_reader_changes_nothing(
    llm: LLM, whole: Completion, stop: str, predicted: bool
) -> None:
    counts = []
    for late in (False, True):
        before = llm.load().generated_tokens
        namespace = f"late-{late}-{predicted}"
        with llm.stream(
            PROMPT,
            max_tokens=MAX_TOKENS,
            stop=[stop],
            namespace=namespace,
            prediction=whole.text if predicted else None,
            **OPTIONS,
        ) as stream:
            if late:
                wait_idle(llm)
            answer = stream.final()
        wait_idle(llm)
        assert (answer.finish_reason, answer.stop_text) == ("stop", stop)
        assert answer.token_ids == whole.token_ids[: len(answer.token_ids)]
        kept = len(answer.token_ids)
        assert kept < MAX_TOKENS // 2
        assert answer.usage.completion_tokens == kept
        assert llm.load().generated_tokens - before == kept
        assert num_learnt(llm, namespace) == answer.usage.prompt_tokens + kept
        counts.append(answer.token_ids)
    assert counts[0] == counts[1]


def test_a_stop_in_the_step_of_the_last_token_cuts_what_is_learnt(
    llm: LLM, whole: Completion, stop: str
) -> None:
    namespace = "in-one-step"
    first = llm.generate(PROMPT, max_tokens=MAX_TOKENS, stop=[stop], namespace="cut", **OPTIONS)
    kept = len(first.token_ids)
    answer = llm.generate(
        PROMPT,
        max_tokens=kept + 2,
        stop=[stop],
        prediction=whole.text,
        namespace=namespace,
        **OPTIONS,
    )
    wait_idle(llm)
    assert answer.token_ids == first.token_ids
    assert num_learnt(llm, namespace) == answer.usage.prompt_tokens + kept
