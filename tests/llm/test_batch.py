"""Lists of prompts: all are checked before any runs, and nothing that was computed is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from spectrie.errors import BatchFailed, ConfigError, DeadlineExceeded, InvalidArgument
from spectrie.llm import LLM
from spectrie.types import Completion, Message
from tests.tiny_model import write_tiny_model

TEXTS = ["def a", "class the", "for it in", "return not"]
TOO_LONG = "import " * 600


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    folder = tmp_path_factory.mktemp("batch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(folder / "cache"))
        model = write_tiny_model(folder / "tiny")
        with LLM(model, dtype="float32", threads=1, num_pages=128) as llm:
            yield llm


def _chat(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def test_bad_prompts_of_a_list_are_named_by_index_before_any_runs(llm: LLM) -> None:
    before = llm.load()
    with pytest.raises(InvalidArgument) as caught:
        llm.generate([*TEXTS, TOO_LONG, "in", ""], max_tokens=4)
    assert "2 of 7 prompts refused, and none run: number 4, 6 (from 0)" in str(caught.value)
    fields = {violation.field for violation in caught.value.field_violations}
    assert fields == {"prompt[4]", "prompt[6]"}
    after = llm.load()
    assert (after.prompt_tokens, after.steps) == (before.prompt_tokens, before.steps)


def test_a_refused_option_of_a_list_keeps_its_name_and_stands_once(llm: LLM) -> None:
    with pytest.raises(InvalidArgument) as caught:
        llm.generate(TEXTS, top_p=1.5)
    assert [violation.field for violation in caught.value.field_violations] == ["top_p"]


def test_many_bad_prompts_are_counted_and_the_first_are_named(llm: LLM) -> None:
    with pytest.raises(InvalidArgument, match=r"20 of 20 .* 6, 7 and 12 others \(from 0\)"):
        llm.generate([""] * 20)


def test_errors_can_stand_in_the_place_of_answers(llm: LLM) -> None:
    alone = [llm.generate(text, max_tokens=8, seed=1).token_ids for text in TEXTS]
    given = [*TEXTS[:2], TOO_LONG, *TEXTS[2:]]
    answers = llm.generate(given, max_tokens=8, seed=1, on_error="return")
    refused = answers.pop(2)
    assert isinstance(refused, InvalidArgument)
    assert [answer.token_ids for answer in answers if isinstance(answer, Completion)] == alone


def test_what_fails_while_it_runs_leaves_the_answers_of_the_others(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = llm._submit
    calls: list[int] = []

    def fail_third(choice: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == 3:
            raise DeadlineExceeded("too late")
        return submit(choice)

    monkeypatch.setattr(llm, "_submit", fail_third)
    with pytest.raises(BatchFailed, match="1 of 4 prompts failed; number 2") as caught:
        llm.generate(TEXTS, max_tokens=8, seed=1)
    assert list(caught.value.errors) == [2]
    assert isinstance(caught.value.__cause__, DeadlineExceeded)
    lengths = [
        len(answer.token_ids) for answer in caught.value.answers if isinstance(answer, Completion)
    ]
    assert lengths == [8, 8, 8]


def test_one_prompt_fails_with_its_own_error(llm: LLM) -> None:
    with pytest.raises(DeadlineExceeded):
        llm.generate("def", max_tokens=400, timeout=0.0001, ignore_eos=True)
    with pytest.raises(InvalidArgument, match="given no text"):
        llm.generate("")


def test_a_list_of_chats_gives_the_answers_each_would_get_alone(llm: LLM) -> None:
    chats = [_chat(text) for text in TEXTS]
    alone = [llm.chat(chat, max_tokens=8, seed=2).token_ids for chat in chats]
    together = llm.chat(chats, max_tokens=8, seed=2)
    assert [answer.token_ids for answer in together] == alone
    with pytest.raises(InvalidArgument) as caught:
        llm.chat([*chats, [{"role": "user"}]], max_tokens=8)  # type: ignore[list-item]
    (violation,) = caught.value.field_violations
    assert violation.field == "messages[4][0].content"


def test_every_choice_of_every_prompt_of_a_list_is_given(llm: LLM) -> None:
    answers = llm.generate(TEXTS, n=3, max_tokens=4, seed=5, on_error="return")
    for text, answer in zip(TEXTS, answers, strict=True):
        alone = llm.generate(text, n=3, max_tokens=4, seed=5)
        assert isinstance(answer, Completion)
        assert [c.token_ids for c in answer.choices] == [c.token_ids for c in alone.choices]


@pytest.mark.parametrize("given", ["hi", {"role": "user", "content": "hi"}, ["hi"], 3])
def test_what_is_no_chat_is_refused_with_what_is_one(llm: LLM, given: Any) -> None:
    expected = r"allowed: a list of \{'role': ..., 'content': ...\}"
    with pytest.raises(InvalidArgument, match=expected) as caught:
        llm.chat(given)
    assert repr(given) in str(caught.value)
    assert [violation.field for violation in caught.value.field_violations] == ["messages"]


@pytest.mark.parametrize("text", ["a", ["a"], []])
@pytest.mark.parametrize("ids", [[1], [[1], [10**9]], []])
def test_texts_and_token_ids_together_are_refused(llm: LLM, text: Any, ids: Any) -> None:
    with pytest.raises(InvalidArgument, match="give exactly one of prompt, prompt_token_ids"):
        llm.generate(text, prompt_token_ids=ids)


def test_arrays_and_tensors_of_token_ids_count_as_lists(llm: LLM) -> None:
    ids = [[3, 4, 5], [6, 7, 8]]
    first, second = (
        answer.token_ids for answer in llm.generate(prompt_token_ids=ids, max_tokens=4, seed=1)
    )
    one: list[Any] = [np.array(ids[0]), torch.tensor(ids[0]), list(np.array(ids[0]))]
    one += [list(torch.tensor(ids[0])), tuple(ids[0]), np.array(ids[0], np.uint8)]
    for given in one:
        assert llm.generate(prompt_token_ids=given, max_tokens=4, seed=1).token_ids == first
        with llm.stream(prompt_token_ids=given, max_tokens=4, seed=1) as stream:
            assert stream.final().token_ids == first
    both: list[Any] = [np.array(ids), torch.tensor(ids), list(np.array(ids)), [*map(tuple, ids)]]
    for given in both:
        answers = llm.generate(prompt_token_ids=given, max_tokens=4, seed=1)
        assert [answer.token_ids for answer in answers] == [first, second]


@pytest.mark.parametrize(
    ("ids", "field"),
    [
        (np.array(3), "prompt_token_ids"),
        (np.array([1.5]), "prompt_token_ids[0]"),
        (np.array([-1, 2]), "prompt_token_ids[0]"),
        ([[1], [2, 10**9]], "prompt_token_ids[1][1]"),
        ([[1], 2], "prompt_token_ids[1]"),
        (3, "prompt_token_ids"),
    ],
)
def test_what_is_no_list_of_token_ids_is_refused_by_its_place(
    llm: LLM, ids: Any, field: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        llm.generate(prompt_token_ids=ids)
    assert [violation.field for violation in caught.value.field_violations] == [field]


def test_another_on_error_is_refused(llm: LLM) -> None:
    with pytest.raises(ConfigError, match="on_error: given 'ignore'; allowed: 'raise' or 'return'"):
        llm.generate(TEXTS, on_error="ignore")  # type: ignore[call-overload]
