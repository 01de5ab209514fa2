"""Sampling options of `spectrie.LLM`: several choices, log-probabilities, barred words, batches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from spectrie import _core
from spectrie.llm import LLM
from spectrie.types import Completion, TokenLogprobs
from tests.options import EVERY_OPTION
from tests.tiny_model import write_tiny_model

PROMPT = "def print the class"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def llm(folder: Path) -> Iterator[LLM]:
    with LLM(folder, dtype="float32", threads=1, num_pages=128, chunk_tokens=16) as llm:
        yield llm


def told(answer: Completion) -> tuple[TokenLogprobs, ...]:
    assert answer.logprobs is not None
    return answer.logprobs


def test_choices_are_those_of_their_seeds_and_the_first_is_that_of_one(llm: LLM) -> None:
    options: dict[str, Any] = {"max_tokens": 20, "ignore_eos": True}
    answer = llm.generate(PROMPT, n=4, seed=9, **options)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert {choice.seed for choice in answer.choices} == {9}
    for choice in answer.choices:
        alone = llm.generate(PROMPT, seed=_core.choice_seed(9, choice.index), **options)
        assert (choice.token_ids, choice.text) == (alone.token_ids, alone.text)
        assert alone.choices == (alone,)
    assert len({choice.token_ids for choice in answer.choices}) == 4
    chat = llm.chat([{"role": "user", "content": "the def"}], n=2, seed=1, max_tokens=4)
    assert len(chat.choices) == 2


def test_a_batch_gives_every_choice_of_every_prompt_and_shows_its_progress(
    llm: LLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spectrie.printing.progress._LOG_EVERY_S", 0.0)
    monkeypatch.setattr("spectrie.llm.batch._MAX_STREAMS", 3)
    texts = [f"{word} the" for word in ("def", "class", "for", "while", "if")]
    alone = [llm.generate(text, n=2, seed=3, max_tokens=12) for text in texts]
    together = llm.generate(texts, n=2, seed=3, max_tokens=12, progress=True)
    for one, other in zip(alone, together, strict=True):
        assert [c.token_ids for c in one.choices] == [c.token_ids for c in other.choices]
    num_tokens = sum(len(choice.token_ids) for answer in alone for choice in answer.choices)
    assert f"5/5 prompts, {num_tokens} tokens" in capsys.readouterr().err.splitlines()[-1]


def test_every_option_at_once_is_exact_with_speculation(llm: LLM) -> None:
    answers = [
        llm.generate(PROMPT, speculation=wish, prediction=guess, **EVERY_OPTION)
        for wish, guess in ((False, None), (True, None), (True, "def print the class in for"))
    ]
    for answer in answers[1:]:
        assert answer.token_ids == answers[0].token_ids
        assert answer.logprobs == answers[0].logprobs
        assert answer.prompt_logprobs == answers[0].prompt_logprobs
    assert len(told(answers[0])) == len(answers[0].token_ids)
    assert all(len(one.top) == 5 for one in told(answers[0]))


def test_log_probabilities_are_the_log_softmax_of_the_model(llm: LLM, folder: Path) -> None:
    answer = llm.generate(PROMPT, **{**EVERY_OPTION, "ignore_eos": True})
    prompt = llm.tokenizer.encode(PROMPT)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    whole = torch.tensor([[*prompt, *answer.token_ids]])
    with torch.no_grad():
        expected = torch.log_softmax(model(whole).logits[0].double(), dim=-1)
    assert answer.prompt_logprobs is not None
    assert answer.prompt_logprobs[0] is None
    every = [*answer.prompt_logprobs, *told(answer)]
    assert len(every) == whole.shape[1]
    for position, one in enumerate(every[1:]):
        assert one is not None
        row = expected[position]
        assert one.token_id == whole[0, position + 1]
        assert math.isclose(one.logprob, row[one.token_id], abs_tol=1e-4)
        best = torch.topk(row, len(one.top)).values
        assert torch.allclose(torch.tensor(list(one.top.values())).double(), best, atol=1e-4)


def test_log_probabilities_end_with_the_tokens_at_a_stop_text(llm: LLM) -> None:
    options: dict[str, Any] = {"max_tokens": 60, "temperature": 0, "ignore_eos": True}
    whole = llm.generate(PROMPT, logprobs=0, **options)
    stop = re.findall("[a-z]{2,}", whole.text)[2]
    stream = llm.stream(PROMPT, stop=[stop], logprobs=0, **options)
    deltas = list(stream)
    answer = stream.final()
    assert told(answer) == told(whole)[: len(answer.token_ids)]
    assert sum((delta.logprobs or () for delta in deltas), ()) == told(answer)


def test_answers_are_silent_about_log_probabilities_nobody_asked_for(llm: LLM) -> None:
    stream = llm.stream(PROMPT, max_tokens=5)
    assert {delta.logprobs for delta in stream} == {None}
    answer = stream.final()
    assert (answer.logprobs, answer.prompt_logprobs) == (None, None)


def test_barred_words_do_not_come_with_or_without_a_space(llm: LLM) -> None:
    options: dict[str, Any] = {"max_tokens": 120, "seed": 2, "ignore_eos": True}
    free = llm.generate(PROMPT, **options)
    words = sorted(set(re.findall("[a-z]{2,}", free.text)))[:3]
    barred = llm.generate(PROMPT, bad_words=words, **options)
    ids = list(barred.token_ids)
    for word in words:
        for text in (word, f" {word}"):
            spelt = llm.tokenizer.encode(text)
            assert all(ids[i : i + len(spelt)] != spelt for i in range(len(ids)))
    assert barred.token_ids != free.token_ids
