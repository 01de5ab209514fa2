"""More answers than the engine holds: those of all threads wait for room, and none fails for another's."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spectrie._core import EngineError
from spectrie.errors import Cancelled, Internal
from spectrie.llm import LLM
from spectrie.llm.settings import engine_options
from spectrie.types import Completion
from tests.tiny_model import write_tiny_model

MAX_HELD = 4
WAIT_S = 60.0


@pytest.fixture
def llm(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LLM]:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))

    def few(given: Any) -> Any:
        return dataclasses.replace(engine_options(given), max_held=MAX_HELD)

    monkeypatch.setattr("spectrie.llm.llm.engine_options", few)
    model = write_tiny_model(tmp_path / "tiny")
    with LLM(model, dtype="float32", threads=1, num_pages=128, max_running=2) as llm:
        yield llm


def test_lists_of_several_threads_all_get_their_answers(llm: LLM) -> None:
    prompts = ["def a", "class the", "for it in", "return not"] * 5

    def ask(n: int) -> list[Completion]:
        return llm.generate(prompts, n=n, max_tokens=3, seed=1)

    expected = [choice.token_ids for answer in ask(2) for choice in answer.choices]
    with ThreadPoolExecutor(4) as threads:
        for answers in threads.map(ask, [2] * 4):
            assert [c.token_ids for answer in answers for c in answer.choices] == expected
    assert llm.load().running == 0


def test_what_was_cancelled_or_refused_makes_room(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        streams = [
            llm.stream("def", max_tokens=400, ignore_eos=True, seed=1) for _ in range(MAX_HELD)
        ]
        for stream in streams:
            stream.cancel()

    def refuse(request: object) -> None:
        raise EngineError("not this one")

    with monkeypatch.context() as patch:
        patch.setattr(llm._host, "submit", refuse)
        for _ in range(2 * MAX_HELD):
            with pytest.raises(Internal, match="not this one"):
                llm.generate("def")
    assert llm.generate("def", max_tokens=2, ignore_eos=True).usage.completion_tokens == 2


def test_closing_frees_all_who_wait(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    room = threading.Semaphore(0)
    monkeypatch.setattr(llm._room, "_places", room)
    ends: list[BaseException | Completion] = []

    def wait() -> None:
        try:
            ends.append(llm.generate("class", max_tokens=2))
        except BaseException as error:
            ends.append(error)

    # Daemons: where they wait without end, the test fails and does not.
    threads = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    llm.close()
    room.release()
    for thread in threads:
        thread.join(WAIT_S)
    assert [type(end) for end in ends] == [Cancelled, Cancelled]
    assert {str(end) for end in ends} == {"the model was closed"}
