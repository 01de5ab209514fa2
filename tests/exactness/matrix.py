"""The ways to run requests that must all give the same answers."""

from __future__ import annotations

import dataclasses
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from typing import Any
from unittest import mock

from spectrie.engine.options import EngineOptions
from spectrie.llm import LLM
from spectrie.types import Completion, TokenLogprobs, Usage
from tests.exactness.cases import FORMS, Case, cases, share
from tests.exactness.pairwise import cover
from tests.exactness.runners import (
    AMPLE_PAGES,
    MAX_CONTEXT,
    SCARCE_PAGES,
    Gate,
    Runners,
    SharedRunner,
    native,
)

__all__ = [
    "COVERING",
    "FULL",
    "REFERENCES",
    "Answer",
    "Combination",
    "Outcome",
    "answer_of",
    "run",
]

DIMENSIONS: dict[str, Sequence[Any]] = {
    "dtype": ("bfloat16", "float32"),
    "speculation": ("auto", "off", "bfs", "prob", "tiers"),
    "concurrency": (4, 32, 1),
    "chunk_tokens": (256, 32),
    "num_pages": (AMPLE_PAGES, SCARCE_PAGES),
    "overlap": ("off", "on"),
    "threads": (2, 1),
    "tensor_parallel": (1, 2),
}
MOST_PARTS = 24
SOME_PARTS = 7
FEW_PARTS = 4
"""A combination answers one case in so many, and one of each form at least."""

RANK_FORMS = {4: ("penalties", "schema", "regex", "choices")}
"""What the short form asks of ranks that run so many requests at once; `FULL` asks every form of them."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One way to run requests.

    Attributes:
        dtype: `bfloat16`, taken as `float32` where the CPU does not compute it natively, or `float32`.
        speculation: `off`, `auto`, `bfs`, `prob` or `tiers`.
        concurrency: Requests that run at once.
        chunk_tokens: Longest prompt chunk of one step.
        num_pages: Pages of the cache; few of them force preemption.
        overlap: Whether a thread learns while a forward runs: `on` or `off`.
        threads: Threads of a forward, of each rank.
        tensor_parallel: Ranks that share the model.
    """

    dtype: str = "float32"
    speculation: str = "off"
    concurrency: int = 32
    chunk_tokens: int = 256
    num_pages: int = AMPLE_PAGES
    overlap: str = "off"
    threads: int = 2
    tensor_parallel: int = 1

    @property
    def may_preempt(self) -> bool:
        """Whether requests may lose their pages on the way."""
        return self.num_pages == SCARCE_PAGES and self.concurrency > 1

    def must_preempt(self, num_cases: int) -> bool:
        """Whether they do so in any order of arrival, however much time drafts save.

        How many drafts a step takes depends on the clock, and a few requests whose drafts are taken
        end before the pages do.
        """
        is_slow = self.speculation == "off" or num_cases >= SURE_CASES
        return self.may_preempt and self.concurrency >= 32 and is_slow

    @property
    def is_crowded(self) -> bool:
        """Whether it has more threads than a test machine has cores."""
        return self.threads * self.tensor_parallel > 2

    def __str__(self) -> str:
        pages = "scarce" if self.num_pages == SCARCE_PAGES else "ample"
        return (
            f"{self.dtype}-{self.speculation}-x{self.concurrency}-chunk{self.chunk_tokens}-{pages}"
            f"-overlap{self.overlap}-threads{self.threads}-ranks{self.tensor_parallel}"
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice: what must not depend on the combination."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    stop_text: str | None
    usage: Usage
    logprobs: tuple[TokenLogprobs, ...] | None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answers by case id, one for each choice, and totals."""

    answers: dict[str, tuple[Answer, ...]]
    accepted_by_source: dict[str, int]
    cached_tokens: int
    preemptions: int
    most_requests: int
    head_levels: int = 0


REFERENCES = tuple(Combination(dtype=dtype) for dtype in DIMENSIONS["dtype"])
"""Without speculation, on one rank, many at once since that is quickest: what the others are compared
with, requests alone among them."""

CROWDED = Combination(dtype="bfloat16", speculation="auto", overlap="on", tensor_parallel=2)
"""The one where four threads spin beside each other on the two cores of a test machine."""

ON_RANKS = (
    CROWDED,
    Combination(
        speculation="tiers",
        concurrency=4,
        chunk_tokens=32,
        num_pages=SCARCE_PAGES,
        threads=1,
        tensor_parallel=2,
    ),
)
"""What the short form asks on ranks: two that differ in everything. A step on ranks has 121 gathers, about a
millisecond each beside other tests, so the other pairs with ranks are asked by `FULL` alone."""


def _covering() -> list[Combination]:
    on_one = {name: values for name, values in DIMENSIONS.items() if name != "tensor_parallel"}
    given = [{name: getattr(one, name) for name in on_one} for one in REFERENCES]
    return [*ON_RANKS, *(Combination(**row) for row in cover(on_one, given))]


def _product() -> list[Combination]:
    rows = (dict(zip(DIMENSIONS, values, strict=True)) for values in product(*DIMENSIONS.values()))
    found = (Combination(**row) for row in rows)
    return [CROWDED, *(one for one in found if not one.is_crowded)]


def _with_cases(
    found: Sequence[Combination],
    num_parts: Callable[[Combination], int],
    forms: Callable[[Combination], Collection[str]] = lambda one: tuple(FORMS),
) -> tuple[tuple[Combination, tuple[Case, ...]], ...]:
    """A part of the cases for each, so that each case is asked; those of one loaded model side by side."""
    parts: defaultdict[int, Iterator[int]] = defaultdict(count)
    chosen: list[tuple[Combination, list[Case]]] = []
    for one in found:
        num = num_parts(one)
        chosen.append((one, share(next(parts[num]), num, forms(one))))
    # Where many run at once on one rank, a case more costs least.
    _, most = max(chosen, key=lambda pair: (-pair[0].tensor_parallel, len(pair[1])))
    asked = {case.id for _, of_one in chosen for case in of_one}
    most += [case for case in cases() if case.id not in asked]
    chosen.sort(key=lambda pair: (pair[0].tensor_parallel, pair[0].dtype))
    return tuple((one, tuple(of_one)) for one, of_one in chosen)


def _num_parts(one: Combination) -> int:
    """Such that each takes about as long: many at once cost little more than few, and ranks wait for each other."""
    if one.tensor_parallel > 1 or one.concurrency == 1:
        return MOST_PARTS
    if one.may_preempt:
        return SOME_PARTS
    return FEW_PARTS if one.concurrency >= 32 else SOME_PARTS


def _forms(one: Combination) -> Collection[str]:
    """All forms where many requests run at once, else some: there each request adds its own steps.

    Ranks wait for each other more than a hundred times in a step, however few rows it has. Of requests alone one
    half of the forms goes with some ways to draft, the other with the others, and by overlap the other way round.
    """
    if one.tensor_parallel > 1:
        return RANK_FORMS.get(one.concurrency, FORMS)
    if one.concurrency > 1:
        return FORMS
    half = DIMENSIONS["speculation"].index(one.speculation) + (one.overlap == "on")
    return list(FORMS)[half % 2 :: 2]


COVERING = _with_cases(_covering(), _num_parts, _forms)
"""With the references every pair of values of two dimensions on one rank, with a part of the cases each."""

SUBMITTED_WITHIN_S = 120.0
SURE_CASES = 12
"""So many at once run out of scarce pages, with drafts or without."""

FULL = _with_cases(_product(), lambda one: MOST_PARTS)
"""The full product but for the other crowded ones, with a small part of the cases each: some hours."""


def run(runners: Runners, combination: Combination, chosen: Sequence[Case]) -> Outcome:
    """Answers every case under a combination, in an order of the combination's own."""
    order = list(chosen)
    dtype = native(combination.dtype)
    if combination not in REFERENCES:
        random.Random(str(combination)).shuffle(order)
    runner = runners.get(dtype, combination.tensor_parallel)
    runner.set_threads(combination.threads)
    shared = SharedRunner(runner, combination.num_pages)
    gate = Gate()
    # With room for what they will grow by, requests would never lose their pages.
    options = partial(EngineOptions, overlap=combination.overlap, lookahead_tokens=0)  # type: ignore[arg-type]
    with (
        gate.installed(),
        mock.patch("spectrie.model.load_runner", lambda *_, **__: shared),
        mock.patch("spectrie.llm.settings.EngineOptions", options),
        LLM(
            runners.model,
            dtype=dtype,
            speculation=combination.speculation,  # type: ignore[arg-type]
            max_running=combination.concurrency,
            chunk_tokens=combination.chunk_tokens,
            num_pages=combination.num_pages,
            max_context=MAX_CONTEXT,
            drafting_cost_ms=0.0,
        ) as llm,
        # Each waits for its answer: all are submitted, and the engine runs some of them.
        ThreadPoolExecutor(len(order)) as callers,
    ):
        asked = callers.map(lambda case: _ask(llm, case), order)
        try:
            _await_requests(llm, sum(case.options().get("n", 1) for case in order))
        finally:
            gate.open()
        completions = list(asked)
        load = llm.load()
    choices = [choice for completion in completions for choice in completion.choices]
    by_source: dict[str, int] = {}
    for choice in choices:
        for source, accepted in choice.speculation.accepted_by_source.items():
            by_source[source] = by_source.get(source, 0) + accepted
    return Outcome(
        answers={
            case.id: tuple(map(answer_of, completion.choices))
            for case, completion in zip(order, completions, strict=True)
        },
        accepted_by_source=by_source,
        cached_tokens=sum(choice.usage.cached_tokens for choice in choices),
        preemptions=load.preemptions,
        most_requests=gate.most_requests,
        head_levels=load.head_levels,
    )


def _await_requests(llm: LLM, number: int) -> None:
    """Waits until so many were submitted: how crowded the pages are must not depend on the machine."""
    deadline_s = time.monotonic() + SUBMITTED_WITHIN_S
    while time.monotonic() < deadline_s:
        load = llm.load()
        if load.running + load.waiting >= number:
            return
        time.sleep(0.005)
    raise TimeoutError(f"fewer than {number} requests after {SUBMITTED_WITHIN_S:g} seconds")


def _ask(llm: LLM, case: Case) -> Completion:
    if case.prompt.text is not None:
        return llm.generate(case.prompt.text, **case.options())
    return llm.chat(case.prompt.messages or [], **case.options())  # type: ignore[arg-type]


def answer_of(choice: Completion) -> Answer:
    """What must be equal of a choice."""
    return Answer(
        token_ids=choice.token_ids,
        text=choice.text,
        finish_reason=choice.finish_reason,
        stop_text=choice.stop_text,
        # What was cached depends on who came before, and is reported for that reason.
        usage=dataclasses.replace(choice.usage, cached_tokens=0),
        logprobs=choice.logprobs,
        prompt_logprobs=choice.prompt_logprobs,
    )
