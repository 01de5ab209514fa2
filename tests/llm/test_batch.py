"""Lists of prompts: all are checked before any runs, and nothing that was computed is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from spectrie.errors import (
    BatchFailed,
    BatchInterrupted,
    ConfigError,
    DeadlineExceeded,
    InvalidArgument,
)
from spectrie.llm import LLM, batch
from spectrie.llm.stream import LocalStream
from spectrie.types import Completion, Message
from tests.waiting import wait_until

TEXTS = ["def a", "class the", "for it in", "return not"]
TOO_LONG = "import " * 600


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

    def fail_third(choice: Any, began_s: float) -> Any:
        calls.append(len(calls))
        if len(calls) == 3:
            raise DeadlineExceeded("too late")
        return submit(choice, began_s)

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


class Troubled:
    """Submits choices; what `trouble` says of a stream, by how many came before it, is put in its way."""

    def __init__(self, llm: LLM, trouble: Callable[[int, LocalStream], None]) -> None:
        self._submit = llm._submit
        self._trouble = trouble
        self.streams: list[LocalStream] = []

    def __call__(self, choice: Any, began_s: float) -> LocalStream:
        stream = self._submit(choice, began_s)
        self._trouble(len(self.streams), stream)
        self.streams.append(stream)
        return stream


def test_a_failed_choice_leaves_the_finished_ones_to_its_error(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = llm.generate(TEXTS[0], n=3, max_tokens=6, seed=5)

    def fail(number: int, stream: LocalStream) -> None:
        if number == 1:
            stream._error = DeadlineExceeded("too late")

    monkeypatch.setattr(llm, "_submit", Troubled(llm, fail))
    with pytest.raises(DeadlineExceeded, match="too late") as caught:
        llm.generate(TEXTS[0], n=3, max_tokens=6, seed=5)
    assert caught.value.__cause__ is None
    finished = [one for one in caught.value.finished_choices if isinstance(one, Completion)]
    assert [one.index for one in finished] == [0, 2]
    assert [one.token_ids for one in finished] == [
        whole.choices[0].token_ids,
        whole.choices[2].token_ids,
    ]


def test_a_choice_that_cannot_start_leaves_the_finished_ones_to_its_error(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = llm.generate(TEXTS[0], n=3, max_tokens=6, seed=5)

    def fail(number: int, stream: LocalStream) -> None:
        if number == 0:
            wait_until(stream.is_over, 15, lambda: "the first answer does not end")
        if number == 1:
            # What had not ended when the third failed.
            monkeypatch.setattr(stream, "is_over", lambda: False)
        if number == 2:
            stream.cancel()
            raise DeadlineExceeded("no room")

    submit = Troubled(llm, fail)
    monkeypatch.setattr(llm, "_submit", submit)
    with pytest.raises(DeadlineExceeded, match="no room") as caught:
        llm.generate(TEXTS[0], n=3, max_tokens=6, seed=5)
    (finished,) = caught.value.finished_choices
    assert isinstance(finished, Completion)
    assert (finished.index, finished.token_ids) == (0, whole.token_ids)
    assert submit.streams[1]._cancelled


def test_an_interrupt_keeps_what_was_finished_and_cancels_the_rest(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [llm.generate(text, max_tokens=6, seed=1).token_ids for text in TEXTS]

    def interrupt(number: int, stream: LocalStream) -> None:
        def wait_for_others() -> Completion:
            # The third is waited for when Ctrl-C comes; the last has ended by then.
            last = submit.streams[3]
            wait_until(last.is_over, 15, lambda: "the last answer does not end")
            raise KeyboardInterrupt

        if number == 2:
            monkeypatch.setattr(stream, "final", wait_for_others)
            monkeypatch.setattr(stream, "is_over", lambda: False)

    submit = Troubled(llm, interrupt)
    monkeypatch.setattr(llm, "_submit", submit)
    with pytest.raises(BatchInterrupted, match="3 of 4 prompts have ended") as caught:
        llm.generate(TEXTS, max_tokens=6, seed=1, on_error="return")
    answers = caught.value.answers
    assert answers[2] is None
    assert [one.token_ids for one in answers if isinstance(one, Completion)] == [
        *alone[:2],
        alone[3],
    ]
    assert submit.streams[2]._cancelled


@pytest.mark.parametrize("n", ["2", 0, 2.5])
def test_a_bad_number_of_choices_is_each_prompts_error(llm: LLM, n: Any) -> None:
    answers = llm.generate(TEXTS, n=n, on_error="return")
    assert len(answers) == 4
    for answer in answers:
        assert isinstance(answer, InvalidArgument)
        assert [violation.field for violation in answer.field_violations] == ["n"]


def test_no_number_of_choices_is_one(llm: LLM) -> None:
    answers = llm.generate(TEXTS, n=None, max_tokens=2, on_error="return")  # type: ignore[call-overload]
    assert [len(answer.choices) for answer in answers] == [1, 1, 1, 1]


def test_few_at_a_time_keep_the_order_and_the_place_of_every_failure(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [f"{TEXTS[index % 4]} {'in ' * (index % 7)}" for index in range(50)]
    bad = {0: TOO_LONG, 7: "", 8: TOO_LONG, 33: "", 49: TOO_LONG}
    good = [index for index in range(50) if index not in bad]
    alone = {index: llm.generate(prompts[index], max_tokens=3, seed=1).token_ids for index in good}
    for index, text in bad.items():
        prompts[index] = text
    held: list[int] = []

    def watch(number: int, stream: LocalStream) -> None:
        held.append(1 + sum(not one._ended for one in submit.streams))
        if number == 30:
            stream._error = DeadlineExceeded("too late")

    monkeypatch.setattr(batch, "_MAX_STREAMS", 2)
    submit = Troubled(llm, watch)
    monkeypatch.setattr(llm, "_submit", submit)
    answers = llm.generate(prompts, max_tokens=3, seed=1, on_error="return")
    assert (len(held), max(held)) == (45, 2)
    late = good[30]
    assert isinstance(answers[late], DeadlineExceeded)
    for index, answer in enumerate(answers):
        if index in bad:
            assert isinstance(answer, InvalidArgument)
        elif index != late:
            assert isinstance(answer, Completion)
            assert answer.token_ids == alone[index]
    submit.streams.clear()
    kept = [text for index, text in enumerate(prompts) if index not in bad]
    with pytest.raises(
        BatchFailed, match=r"1 of 45 prompts failed; number 30 \(from 0\)"
    ) as caught:
        llm.generate(kept, max_tokens=3, seed=1)
    assert list(caught.value.errors) == [30]
    assert [one.token_ids for one in caught.value.answers if isinstance(one, Completion)] == [
        alone[index] for index in good if index != late
    ]


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
