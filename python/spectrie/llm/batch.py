"""Many prompts of one call: all are checked before any runs, then answered side by side."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from spectrie.errors import (
    BatchFailed,
    ConfigError,
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

_Checked = list["_core.Choice"] | SpectrieError
"""The choices of a prompt, or why there are none."""

_PROMPT_FIELDS = ("prompt", "prompt_token_ids", "messages")
_NAMED = 8
"""Refused prompts that an error describes; it counts the others."""

# Concurrent choices of one call: enough to keep any engine full, and far below its limit.
_MAX_STREAMS = 1024


def run(
    label: str,
    prompts: Sequence[Prompt],
    *,
    single: bool,
    num_choices: int,
    progress: bool,
    on_error: OnError,
    resolve: Callable[[Prompt], list[_core.Choice]],
    submit: Callable[[_core.Choice], LocalStream],
) -> list[Completion | SpectrieError]:
    """Checks all prompts, runs them, and returns their answers in order.

    Args:
        label: Name of the call, for its bar.
        prompts: Of one call.
        single: Whether it is no list: its error is raised as it is.
        num_choices: Of each prompt.
        progress: Whether to show a bar on stderr.
        on_error: Whether errors are raised, or returned in place.
        resolve: Gives the choices of a prompt, or raises `InvalidArgument`.
        submit: Starts a choice.

    Raises:
        ConfigError: `on_error` is neither.
        InvalidArgument: Prompts are refused; none ran.
        BatchFailed: Some failed while they ran; it holds the answers of the others.
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
        answers: list[Completion | SpectrieError] = []
        num_tokens = 0
        for answer in _answers(checked, num_choices, submit):
            answers.append(answer)
            if isinstance(answer, Completion):
                num_tokens += sum(len(choice.token_ids) for choice in answer.choices)
            show(len(answers), f"{len(answers)}/{count} prompts, {num_tokens} tokens")
    failed = next((one for one in answers if isinstance(one, SpectrieError)), None)
    if raises and failed is not None:
        raise failed if single else BatchFailed(answers) from failed
    return answers


def _check(
    prompts: Sequence[Prompt],
    resolve: Callable[[Prompt], list[_core.Choice]],
    show: Callable[[int], None],
) -> list[_Checked]:
    """Resolves every prompt; nothing runs yet."""
    checked: list[_Checked] = []
    for prompt in prompts:
        try:
            checked.append(resolve(prompt))
        except InvalidArgument as error:
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


def _answers(
    checked: Sequence[_Checked], num_choices: int, submit: Callable[[_core.Choice], LocalStream]
) -> Iterator[Completion | SpectrieError]:
    """Yields the answers in order, each with all its choices, or its error in place.

    Many prompts run concurrently. Leaving the iterator early cancels what still runs.
    """
    started: deque[list[LocalStream] | SpectrieError] = deque()
    waiting = iter(checked)
    try:
        while True:
            while len(started) * num_choices < _MAX_STREAMS and (one := next(waiting, None)):
                started.append(one if isinstance(one, SpectrieError) else _start(one, submit))
            if not started:
                return
            answer = _answer(started[0])
            started.popleft()
            yield answer
    finally:
        streams = (one for one in started if not isinstance(one, SpectrieError))
        _cancel(itertools.chain.from_iterable(streams))


def _start(
    choices: Sequence[_core.Choice], submit: Callable[[_core.Choice], LocalStream]
) -> list[LocalStream] | SpectrieError:
    streams: list[LocalStream] = []
    try:
        for choice in choices:
            streams.append(submit(choice))
    except SpectrieError as error:
        _cancel(streams)
        return error
    except BaseException:
        _cancel(streams)
        raise
    return streams


def _answer(started: Sequence[LocalStream] | SpectrieError) -> Completion | SpectrieError:
    if isinstance(started, SpectrieError):
        return started
    try:
        first, *others = [stream.final() for stream in started]
    except SpectrieError as error:
        _cancel(started)
        return error
    return dataclasses.replace(first, other_choices=tuple(others)) if others else first


def _cancel(streams: Iterator[LocalStream] | Sequence[LocalStream]) -> None:
    for stream in streams:
        stream.cancel()
