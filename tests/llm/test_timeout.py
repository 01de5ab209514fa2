"""`timeout` covers a whole request: waiting for room, compiling its grammar, and its answer."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from spectrie import _core
from spectrie.engine.grammars import Grammars
from spectrie.errors import DeadlineExceeded, SpectrieError
from spectrie.llm import LLM, batch
from spectrie.types import Completion

WAIT_S = 30.0
TIMEOUT_S = 500.0
LEAP_S = 1000.0
REGEX = "[a-z ]*"

Ask = Callable[[LLM, dict[str, Any]], object]


class Clock:
    """The clock of `spectrie.llm`: behind the engine's by what it will leap in a test."""

    def __init__(self) -> None:
        self._behind_s = LEAP_S

    def monotonic(self) -> float:
        return time.monotonic() - self._behind_s

    def leap(self, seconds: float = LEAP_S) -> None:
        self._behind_s -= seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("batch", "llm", "resolver", "room"):
        monkeypatch.setattr(f"spectrie.llm.{module}.time", clock)
    return clock


def alone(llm: LLM, options: dict[str, Any]) -> object:
    return llm.generate("def", **options)


def several(llm: LLM, options: dict[str, Any]) -> object:
    return llm.generate("def", n=2, **options)


def chat(llm: LLM, options: dict[str, Any]) -> object:
    return llm.chat([{"role": "user", "content": "def"}], **options)


def stream(llm: LLM, options: dict[str, Any]) -> object:
    return llm.stream("def", **options).final()


def of_a_list(llm: LLM, options: dict[str, Any]) -> object:
    (answer,) = llm.generate(["def"], on_error="return", **options)
    if isinstance(answer, SpectrieError):
        raise answer
    return answer


each_call = pytest.mark.parametrize("ask", [alone, several, chat, stream, of_a_list])


@each_call
def test_time_in_wait_for_room_is_the_requests_own(
    llm: LLM, clock: Clock, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = llm._room.enter

    def enter_late(choice: Any, began_s: float) -> None:
        enter(choice, began_s)
        monkeypatch.setattr(llm._room, "enter", enter)
        clock.leap()

    monkeypatch.setattr(llm._room, "enter", enter_late)
    with pytest.raises(DeadlineExceeded, match="no answer within 500 s"):
        ask(llm, {"max_tokens": 4, "timeout": TIMEOUT_S})
    assert isinstance(ask(llm, {"max_tokens": 4, "timeout": TIMEOUT_S}), Completion)


@each_call
def test_time_of_compiling_is_the_requests_own(
    llm: LLM, clock: Clock, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_at_once = Grammars.compile

    def compile_late(*given: Any) -> Any:
        grammar = compile_at_once(*given)
        clock.leap()
        return grammar

    options = {"max_tokens": 4, "timeout": TIMEOUT_S, "regex": REGEX}
    with monkeypatch.context() as patch:
        patch.setattr(Grammars, "compile", compile_late)
        with pytest.raises(DeadlineExceeded, match="no answer within 500 s"):
            ask(llm, options)
    assert isinstance(ask(llm, options), Completion)


class Slow(list[str]):
    """Texts that take time to read."""

    def __init__(self, text: str, read: Callable[[], None]) -> None:
        super().__init__([text])
        self._read = read

    def __iter__(self) -> Iterator[str]:
        self._read()
        return super().__iter__()


@each_call
def test_a_grammar_has_what_is_left_of_the_time(
    llm: LLM, clock: Clock, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []
    compile_at_once = Grammars.compile

    def compile_noted(grammars: Grammars, kind: str, text: Any, timeout_s: float | None) -> Any:
        limits.append(timeout_s)
        return compile_at_once(grammars, kind, text, timeout_s)

    monkeypatch.setattr(Grammars, "compile", compile_noted)
    stop = Slow("zzz", lambda: clock.leap(600.0))
    options = {"max_tokens": 4, "regex": REGEX, "stop": stop}
    ask(llm, options)
    ask(llm, options | {"timeout": 700.0})
    unlimited, limited = limits
    assert unlimited is None
    assert limited is not None
    assert 0.0 < limited <= 100.0
    with pytest.raises(DeadlineExceeded, match="no answer within 500 s"):
        ask(llm, options | {"timeout": TIMEOUT_S})
    # Not begun for a request whose time is over.
    assert len(limits) == 2


def test_making_the_compiler_counts_as_time_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    limits: list[float | None] = []

    def make(tokenizer: Any, eos_token_ids: Any) -> Any:
        now_s[0] += 3.0
        return SimpleNamespace(compile=lambda kind, text, timeout_s: limits.append(timeout_s))

    clock = SimpleNamespace(monotonic=lambda: now_s[0])
    monkeypatch.setattr("spectrie.engine.grammars.time", clock)
    monkeypatch.setattr(_core, "GrammarCompiler", make)
    tokenizer: Any = None
    grammars = Grammars(lambda: tokenizer, [2])
    for timeout_s in (10.0, 10.0, None):
        grammars.compile("regex", REGEX, timeout_s)
    assert limits == [7.0, 10.0, None]


@each_call
def test_a_request_that_finds_no_room_fails_when_its_time_is_over(
    llm: LLM, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm._room, "_places", threading.Semaphore(0))
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            ask(llm, {"timeout": 0.05, "request_id": "late"})
        except BaseException as error:
            failed.append(error)

    # A daemon: if it waits without end, the test fails and does not.
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert failed, "it waits without end"
    (error,) = failed
    assert isinstance(error, DeadlineExceeded)
    assert "no answer within 0.05 s: the engine had no room" in str(error)
    assert (error.timeout_s, error.request_id) == (0.05, "late")


@dataclasses.dataclass
class Ended:
    """An answer that is there once it was waited for."""

    wait: Callable[[], None]
    other_choices: Any = ()

    def final(self) -> Ended:
        self.wait()
        return self


def test_a_prompt_of_a_list_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]

    def spend(seconds: float) -> None:
        now_s[0] += seconds

    def resolve(prompt: Any, began_s: float) -> Any:
        assert began_s == now_s[0]
        spend(checking_s[prompt])
        return [f"{prompt}0", f"{prompt}1"]

    def submit(choice: Any, began_s: float) -> Any:
        starts.append((choice, now_s[0] - began_s))
        spend(1.0)
        return Ended(lambda: spend(100.0))

    checking_s = {"a": 3.0, "b": 5.0, "c": 0.0}
    starts: list[tuple[str, float]] = []
    monkeypatch.setattr(batch, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(batch, "_MAX_STREAMS", 2)
    prompts: Any = list(checking_s)
    given: dict[str, Any] = {"progress": False, "on_error": "raise"}
    batch.run("test", prompts, single=False, resolve=resolve, submit=submit, **given)
    # What was spent by then: on its own checking, and on the choices before in the line for room.
    assert starts == [("a0", 3.0), ("a1", 4.0), ("b0", 5.0), ("b1", 6.0), ("c0", 0.0), ("c1", 1.0)]
