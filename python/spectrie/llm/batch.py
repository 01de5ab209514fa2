"""Many prompts of one call: all are checked before any runs, then answered side by side."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from spectrie.errors import (
    BatchFailed,
    BatchInterrupted,
    ConfigError,
    DeadlineExceeded,
    FieldViolation,
    InvalidArgument,
    SpectrieError,
)
from spectrie.llm.prompts import Prompt
from spectrie.llm.stream import LocalStream
from spectrie.printing.progress import Progress
from spectrie.types import Completion

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["OnError", "run"]

OnError = Literal["raise", "return"]
"""What a failed prompt of a list does."""

Resolve = Callable[[Prompt, float], list["_core.Choice"]]
"""Gives the choices of a prompt whose time began then, or raises `InvalidArgument` or `DeadlineExceeded`."""

Submit = Callable[["_core.Choice", float], LocalStream]
"""Starts a choice of a prompt whose time began then."""

_PROMPT_FIELDS = ("prompt", "prompt_token_ids", "messages")
_NAMED = 8
"""Refused prompts that an error describes; it counts the others."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Ready:
    """A prompt that may be started: its choices, and the seconds of its time that were spent on them."""

    choices: Sequence[_core.Choice]
    spent_s: float


_Checked = _Ready | SpectrieError
"""A prompt, or why it cannot be started."""

# Concurrent choices of one call: enough to keep any engine full, and far below its limit.
_MAX_STREAMS = 1024


def run(
    label: str,
    prompts: Sequence[Prompt],
    *,
    single: bool,
    progress: bool,
    on_error: OnError,
    resolve: Resolve,
    submit: Submit,
) -> list[Completion | SpectrieError]:
    """Checks all prompts, runs them, and returns their answers in order.

    Args:
        label: Name of the call, for its bar.
        prompts: Of one call.
        single: Whether it is no list: its error is raised as it is.
        progress: Whether to show a bar on stderr.
        on_error: Whether errors are raised, or returned in place.
        resolve: See `Resolve`; times are on the clock of `time.monotonic`.
        submit: See `Submit`.

    Raises:
        ConfigError: `on_error` is neither.
        InvalidArgument: Prompts are refused; none ran.
        BatchFailed: Some failed while they ran; it holds the answers of the others.
        BatchInterrupted: Ctrl-C while a list ran; it holds the answers that were finished.
    """
    if on_error not in get_args(OnError):
        allowed = " or ".join(map(repr, get_args(OnError)))
        raise ConfigError(f"on_error: given {on_error!r}; allowed: {allowed}")
    raises = single or on_error == "raise"
    count = len(prompts)
    with Progress(label, count) as bar:

        def show(done: int, note: str) -> None:
            if progress:
                bar.show(done, note)

        checked = _check(prompts, resolve, lambda now: show(0, f"{now}/{count} prompts checked"))
        if raises and (refused := _refusal(checked, single)):
            raise refused
        answers: dict[int, Completion | SpectrieError] = {}
        running = _Running(checked, submit)
        num_tokens = 0
        try:
            while (started := running.first()) is not None:
                index, first = started
                answers[index] = answer = _answer(first)
                running.remove_first()
                if isinstance(answer, Completion):
                    num_tokens += sum(len(choice.token_ids) for choice in answer.choices)
                show(len(answers), f"{len(answers)}/{count} prompts, {num_tokens} tokens")
        except KeyboardInterrupt as interrupt:
            if single:
                raise
            answers = running.finished() | answers
            raise BatchInterrupted([answers.get(index) for index in range(count)]) from interrupt
        finally:
            running.cancel()
    in_order = [answers[index] for index in range(count)]
    if raises:
        _raise_first(in_order, single)
    return in_order


def _raise_first(answers: Sequence[Completion | SpectrieError], single: bool) -> None:
    failed = next((one for one in answers if isinstance(one, SpectrieError)), None)
    if failed is None:
        return
    if single:
        raise failed
    raise BatchFailed(answers) from failed


def _check(
    prompts: Sequence[Prompt],
    resolve: Resolve,
    show: Callable[[int], None],
) -> list[_Checked]:
    """Resolves every prompt; nothing runs yet."""
    checked: list[_Checked] = []
    for prompt in prompts:
        began_s = time.monotonic()
        try:
            choices = resolve(prompt, began_s)
            checked.append(_Ready(choices, time.monotonic() - began_s))
        except (InvalidArgument, DeadlineExceeded) as error:
            checked.append(error)
        show(len(checked))
    return checked


def _refusal(checked: Sequence[_Checked], single: bool) -> InvalidArgument | None:
    """One error that names each refused prompt of a list by its index; None if there is none."""
    refused = [(i, one) for i, one in enumerate(checked) if isinstance(one, InvalidArgument)]
    if not refused or single:
        return refused[0][1] if refused else None
    violations: dict[FieldViolation, None] = {}
    for index, error in refused[:_NAMED]:
        for violation in error.field_violations:
            violations[_indexed(violation, index)] = None
    _, first = refused[0]
    indices = ", ".join(str(index) for index, _ in refused[:_NAMED])
    more = f" and {len(refused) - _NAMED} others" if len(refused) > _NAMED else ""
    return InvalidArgument(
        f"{len(refused)} of {len(checked)} prompts refused, and none run: number {indices}{more}"
        f" (from 0); the first of them: {first}",
        reason=first.reason,
        field_violations=tuple(violations),
        metadata=first.metadata,
    )


def _indexed(violation: FieldViolation, index: int) -> FieldViolation:
    name, dot, rest = violation.field.partition(".")
    head, bracket, place = name.partition("[")
    if head not in _PROMPT_FIELDS:
        return violation
    return FieldViolation(f"{head}[{index}]{bracket}{place}{dot}{rest}", violation.description)


class _Running:
    """The prompts of a call that run side by side, in order."""

    def __init__(self, checked: Sequence[_Checked], submit: Submit) -> None:
        self._waiting = deque(enumerate(checked))
        self._submit = submit
        self._started: deque[tuple[int, list[LocalStream] | SpectrieError]] = deque()
        self._num_streams = 0

    def first(self) -> tuple[int, list[LocalStream] | SpectrieError] | None:
        """Starts as many as may run, and gives the first with its index; None after the last."""
        while self._waiting and self._num_streams < _MAX_STREAMS:
            index, one = self._waiting[0]
            started = one if isinstance(one, SpectrieError) else self._start(one)
            self._started.append((index, started))
            self._waiting.popleft()
            self._num_streams += _num_streams(started)
        return self._started[0] if self._started else None

    def remove_first(self) -> None:
        """Removes the first, which has its answer."""
        _, first = self._started.popleft()
        self._num_streams -= _num_streams(first)

    def finished(self) -> dict[int, Completion | SpectrieError]:
        """The answers of those which have ended, by index; waits for none."""
        found = {}
        for index, started in self._started:
            is_over = isinstance(started, SpectrieError) or all(one.is_over() for one in started)
            if is_over:
                found[index] = _answer(started)
        return found

    def cancel(self) -> None:
        """Stops all that still run."""
        for _, started in self._started:
            if not isinstance(started, SpectrieError):
                _cancel(started)

    def _start(self, ready: _Ready) -> list[LocalStream] | SpectrieError:
        # Its time stood still while others of the list were checked and answered.
        began_s = time.monotonic() - ready.spent_s
        streams: list[LocalStream] = []
        try:
            for choice in ready.choices:
                streams.append(self._submit(choice, began_s))
        except SpectrieError as error:
            finished = [stream for stream in streams if stream.is_over()]
            _cancel(streams)
            error.finished_choices = tuple(_finals(finished)[0])
            return error
        except BaseException:
            _cancel(streams)
            raise
        return streams


def _num_streams(started: Sequence[LocalStream] | SpectrieError) -> int:
    return 0 if isinstance(started, SpectrieError) else len(started)


def _answer(started: Sequence[LocalStream] | SpectrieError) -> Completion | SpectrieError:
    """The answer with all its choices; an error has the choices that were finished all the same."""
    if isinstance(started, SpectrieError):
        return started
    finals, failed = _finals(started)
    if failed is not None:
        failed.finished_choices = tuple(finals)
        return failed
    first, *others = finals
    return dataclasses.replace(first, other_choices=tuple(others)) if others else first


def _finals(streams: Sequence[LocalStream]) -> tuple[list[Completion], SpectrieError | None]:
    """Waits for all; returns the whole answers, and the error of the first that failed."""
    finals: list[Completion] = []
    failed: SpectrieError | None = None
    for stream in streams:
        try:
            finals.append(stream.final())
        except SpectrieError as error:
            failed = failed or error
    return finals, failed


def _cancel(streams: Sequence[LocalStream]) -> None:
    for stream in streams:
        stream.cancel()
