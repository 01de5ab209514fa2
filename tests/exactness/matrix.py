"""The requests and the ways to run them that must all give the same answers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import spectrie.model
from spectrie.llm import LLM
from spectrie.types import Completion, Usage
from tests import prompts

if TYPE_CHECKING:
    from spectrie.model import Runner

__all__ = [
    "COVERING",
    "FULL",
    "NUM_PROMPTS",
    "REFERENCE",
    "Answer",
    "Case",
    "Combination",
    "Outcome",
    "cases",
    "run",
]

PER_KIND = 8
NUM_PROMPTS = PER_KIND * len(prompts.KINDS)
NEW_TOKENS = 48
AMPLE_PAGES = 512
SCARCE_PAGES = 28
"""448 tokens: enough for the longest request alone, not for four together."""

MAX_CONTEXT = SCARCE_PAGES * 16

SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "seeded": {"temperature": 0.8, "top_p": 0.95},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One request.

    Attributes:
        id: Prompt and sampling, such as `HumanEval/13 greedy`.
        prompt: Text or chat.
        sampling: `greedy` or `seeded`.
        seed: Seed of the noise.
    """

    id: str
    prompt: prompts.Prompt
    sampling: str
    seed: int

    def options(self) -> dict[str, Any]:
        """Arguments of `LLM.stream`."""
        options: dict[str, Any] = {
            "max_tokens": NEW_TOKENS,
            "seed": self.seed,
            "prediction": self.prompt.prediction,
            **SAMPLINGS[self.sampling],
        }
        if self.prompt.text is not None:
            # A stop text here and there: what lies behind it must not count.
            options |= {"prompt": self.prompt.text, "stop": ["\nclass", "\nprint("]}
        else:
            options |= {"messages": self.prompt.messages}
        return options


@dataclass(frozen=True, slots=True)
class Combination:
    """One way to run the requests.

    Attributes:
        speculation: `off`, `auto`, `bfs` or `prob`.
        concurrency: Requests that run at once.
        chunk_tokens: Longest prompt chunk of one step.
        num_pages: Pages of the cache; few of them force preemption.
    """

    speculation: str
    concurrency: int
    chunk_tokens: int
    num_pages: int = AMPLE_PAGES

    @property
    def preempts(self) -> bool:
        """Whether requests must lose their pages on the way."""
        return self.num_pages == SCARCE_PAGES and self.concurrency > 1

    def __str__(self) -> str:
        pages = "scarce" if self.num_pages == SCARCE_PAGES else "ample"
        return f"{self.speculation}-x{self.concurrency}-chunk{self.chunk_tokens}-{pages}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What must not depend on the combination."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    stop_text: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answers by case id, and totals."""

    answers: dict[str, Answer]
    accepted_tokens: int
    preemptions: int


REFERENCE = Combination("off", 1, 256)

# Each value of speculation, company, chunk and cache with most values of the others.
COVERING = (
    Combination("auto", 1, 32),
    Combination("auto", 4, 256),
    Combination("off", 4, 32),
    Combination("off", 4, 256, SCARCE_PAGES),
    Combination("auto", 4, 32, SCARCE_PAGES),
    Combination("prob", 4, 256),
)

FULL = tuple(
    Combination(*values)
    for values in product(
        ("off", "auto", "bfs", "prob"), (1, 4), (32, 256), (AMPLE_PAGES, SCARCE_PAGES)
    )
    if Combination(*values) != REFERENCE
)


def cases() -> list[Case]:
    """Every prompt with every sampling."""
    chosen = [prompt for kind in prompts.KINDS for prompt in prompts.load(kind, PER_KIND)]
    return [
        Case(f"{prompt.id} {sampling}", prompt, sampling, seed=1000 + index)
        for index, prompt in enumerate(chosen)
        for sampling in SAMPLINGS
    ]


class SharedRunner:
    """A loaded model of which a combination sees `num_pages` pages.

    Loading takes most of a combination's time otherwise. What the pages hold from before is never
    read, as in any run: a row is written before it is read.
    """

    def __init__(self, runner: Runner, num_pages: int) -> None:
        self._runner = runner
        self.num_pages = num_pages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


@cache
def load(model: Path, dtype: str) -> Runner:
    """The model of a number format, loaded once."""
    return spectrie.model.load_runner(
        model, dtype=dtype, num_pages=AMPLE_PAGES, max_context=MAX_CONTEXT
    )


def run(model: Path, dtype: str, combination: Combination, chosen: list[Case]) -> Outcome:
    """Answers every case under a combination, in an order of the combination's own."""
    order = list(chosen)
    if combination != REFERENCE:
        random.Random(str(combination)).shuffle(order)
    shared = SharedRunner(load(model, dtype), combination.num_pages)
    with (
        mock.patch("spectrie.model.load_runner", lambda *_, **__: shared),
        LLM(
            model,
            dtype=dtype,
            speculation=combination.speculation,  # type: ignore[arg-type]
            max_running=combination.concurrency,
            chunk_tokens=combination.chunk_tokens,
            num_pages=combination.num_pages,
            max_context=MAX_CONTEXT,
        ) as llm,
    ):
        streams = [llm.stream(**case.options()) for case in order]
        completions = [stream.final() for stream in streams]
        preemptions = llm.load().preemptions
    return Outcome(
        answers={
            case.id: _answer(completion)
            for case, completion in zip(order, completions, strict=True)
        },
        accepted_tokens=sum(c.speculation.accepted_tokens for c in completions),
        preemptions=preemptions,
    )


def _answer(completion: Completion) -> Answer:
    return Answer(
        token_ids=completion.token_ids,
        text=completion.text,
        finish_reason=completion.finish_reason,
        stop_text=completion.stop_text,
        usage=completion.usage,
    )
