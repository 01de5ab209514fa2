"""The ways to run requests with a drafter that must all give the answers of plain decoding."""

from __future__ import annotations

import dataclasses
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from spectrie.engine.options import EngineOptions
from spectrie.llm import LLM
from spectrie.types import Completion, SpeculationOptions
from tests.exactness.matrix import Answer, answer_of
from tests.exactness.pairwise import cover
from tests.exactness.runners import Gate
from tests.model.drafters.asked import make_levels_pay
from tests.model.drafters.kinds import KINDS, LEARNT
from tests.tiny_model import VOCABULARY_SIZE

__all__ = [
    "COVERING",
    "DIMENSIONS",
    "FIXED",
    "FORMS",
    "FULL",
    "ON_RANKS",
    "RULED",
    "SEVERAL",
    "Ask",
    "Found",
    "Way",
    "asks",
    "run",
]

MAX_CONTEXT = 160
SCARCE_PAGES = MAX_CONTEXT // 16
"""Enough for the longest request alone."""

AMPLE_PAGES = 512
NEW_TOKENS = 24
SUBMITTED_WITHIN_S = 60.0

DIMENSIONS: dict[str, Sequence[Any]] = {
    "kind": KINDS,
    "dtype": ("float32", "bfloat16"),
    "max_running": (32, 1, 4),
    "num_pages": (AMPLE_PAGES, SCARCE_PAGES),
    "overlap": ("off", "on"),
    "loop": ("native", "python"),
    "chunk_tokens": (256, 7),
    "threads": (1, 2),
    "memory": ("kept", "none"),
}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "word": {"type": "string", "pattern": "^[a-z]{2,5}$"},
        "is": {"type": "boolean"},
        "of": {"enum": ["this", "that", "the"]},
    },
    "required": ["word", "is", "of"],
    "additionalProperties": False,
}

FORMS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "seeded": {"temperature": 0.9},
    "penalties": {"temperature": 0.7, "repetition_penalty": 1.2, "frequency_penalty": 0.3},
    "logprobs": {"temperature": 0.0, "logprobs": 3, "prompt_logprobs": 1},
    "grammar": {"temperature": 0.8, "regex": "([a-z]{3,9} ){2,6}", "ignore_eos": False},
    "schema": {"temperature": 0.0, "json_schema": _SCHEMA, "max_tokens": 48, "ignore_eos": False},
    "object": {"temperature": 0.9, "json_schema": _SCHEMA, "max_tokens": 48, "ignore_eos": False},
    "unlearnt": {"temperature": 0.0, "speculation": SpeculationOptions(learn=False)},
    "late": {"temperature": 0.6, "stop": ["e", "in", "th"]},
    "choices": {"temperature": 1.0, "top_p": 0.95, "n": 3},
}
"""Options of each form; the stop texts of `late` are looked for when all others have ended."""

FIXED_FORM = "penalties"
"""Requests of it ask a drafter whatever it costs where the machine's clock may say that it never pays."""

RULED = ("grammar", "schema", "object")
"""Forms whose answers a grammar holds to its own."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run requests.

    Attributes:
        kind: One of `KINDS`, or several with `+` between.
        dtype: `float32` or `bfloat16`, which any CPU computes.
        max_running: Requests that run at once.
        num_pages: Pages of the cache; few of them force preemption.
        overlap: Whether a thread learns while a forward runs: `on` or `off`.
        loop: Whether the steps are called from Python: `native` or `python`. There a clock says that levels
            always pay.
        chunk_tokens: Longest prompt chunk of one step.
        threads: Threads of a forward.
        memory: Whether text of other requests is drafted from: `kept` or `none`, which leaves more to drafters.
        speculation: How draft trees are grown, as of the engine.
        tensor_parallel: Ranks that share the model.
    """

    kind: str
    dtype: str
    max_running: int
    num_pages: int
    overlap: str
    loop: str
    chunk_tokens: int
    threads: int
    memory: str
    speculation: str = "auto"
    tensor_parallel: int = 1

    def __str__(self) -> str:
        *values, speculation, ranks = [str(value) for value in dataclasses.astuple(self)]
        others = [speculation] * (speculation != "auto") + [f"ranks{ranks}"] * (ranks != "1")
        return "-".join([*values, *others])


COVERING = [Way(**row) for row in cover(DIMENSIONS)]
"""Every pair of values of two dimensions, each with all requests."""

FULL = [
    Way(**row)
    for kind in KINDS
    for row in cover(DIMENSIONS | {"kind": (kind,)} | {"threads": (1,)})
]
"""For each kind every pair of the others."""


FIXED = [
    dataclasses.replace(way, speculation=("eagle2", "tiers", "chain")[index % 3])
    for index, way in enumerate(
        next(way for way in COVERING[index:] + COVERING if way.kind == kind)
        for index, kind in enumerate(KINDS)
    )
]
"""Modes that ask a drafter whatever it costs: each with three kinds."""


_TOGETHER = (
    ("eagle2", "model"),
    ("eagle3", "mtp"),
    ("eagle3_of_one", "itself"),
    ("dflash2", "peagle"),
    ("itself", "model", "eagle3_of_one", "dflash"),
)

SEVERAL = [
    dataclasses.replace(
        COVERING[index * len(COVERING) // (2 * len(_TOGETHER))],
        kind="+".join(kinds),
        loop=loop,
        memory=memory,
        max_running=max_running,
        num_pages=num_pages,
    )
    for index, (kinds, (loop, memory, max_running, num_pages)) in enumerate(
        product(
            _TOGETHER,
            (("python", "none", 32, SCARCE_PAGES), ("native", "kept", 4, AMPLE_PAGES)),
        )
    )
]
"""Several drafters at once: with pages lost again and again, and with all room."""

SEVERAL += [
    dataclasses.replace(SEVERAL[0], kind="eagle3_of_one+model", speculation="eagle2"),
    dataclasses.replace(SEVERAL[1], kind="model+eagle3", speculation="chain"),
    dataclasses.replace(SEVERAL[0], kind="mtp+dflash", speculation="tiers"),
]


ON_RANKS = [
    dataclasses.replace(way, kind=kind, loop="python", memory="none", threads=1, tensor_parallel=2)
    for way, kind in ((SEVERAL[0], "itself"), (SEVERAL[1], "eagle3+mtp+dflash2+model"))
]
"""Drafters on the first of two ranks: with pages lost again and again, and with all room."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: its name, which ends with its form, the tokens of its prompt, and options of `LLM`."""

    id: str
    prompt_ids: tuple[int, ...]
    options: dict[str, Any]

    @property
    def form(self) -> str:
        """Its form, one of `FORMS`."""
        return self.id.split()[-1]


@dataclass(frozen=True, slots=True)
class Found:
    """What came of the requests.

    Attributes:
        answers: The answers to each, choices and rounds one after the other, by its id.
        accepted: Accepted draft tokens by source.
        ruled: The same of answers that a grammar holds to its own.
        cached_tokens: Prompt tokens that were found in the cache.
        preemptions: How often requests lost their pages.
        most_requests: Most that ran at once.
        levels: Levels that each drafter was asked.
    """

    answers: dict[str, list[Answer]]
    accepted: Counter[str]
    ruled: Counter[str]
    cached_tokens: int
    preemptions: int
    most_requests: int
    levels: list[int]


def asks() -> list[Ask]:
    """Requests of every form, of two namespaces, with prompts of one token and up to the context's end."""
    draw = random.Random(11)
    shared = draw.choices(range(3, VOCABULARY_SIZE), k=48)
    own = [draw.choices(range(3, VOCABULARY_SIZE), k=count) for count in (5, 30, 70)]
    # Three begin alike, and one repeats itself.
    prompts = [(9,), shared, shared[:40] + own[0], shared + own[1], own[2], 12 * own[0]]
    found: list[Ask] = []
    for form, options in FORMS.items():
        for index, prompt in enumerate(prompts):
            if (index + len(form)) % 3 == 0 and form not in ("greedy", "seeded"):
                continue
            given = {
                "max_tokens": NEW_TOKENS,
                "seed": len(found),
                "ignore_eos": True,
                "namespace": (LEARNT, "client-b")[index % 2],
            }
            found.append(Ask(f"prompt{index} {form}", tuple(prompt), given | options))
    for count in (1, 2, 3, MAX_CONTEXT - len(own[2])):
        # Drafts are cut by the number of tokens, and by the end of the context.
        options = {"max_tokens": count, "ignore_eos": True, "namespace": LEARNT}
        found.append(Ask(f"{count} tokens greedy", tuple(own[2]), options | FORMS["greedy"]))
    return found


def run(model: Path, drafters: Sequence[Path], way: Way, chosen: Sequence[Ask]) -> Found:
    """Answers every request twice, in orders of the way's own: the second round finds the first one's text.

    Args:
        model: From `write_model`.
        drafters: None of them decodes plainly.
        way: Its kind is what `drafters` are.
        chosen: The requests.
    """
    gate = Gate()
    # With room for what they will grow by, requests would never lose their pages.
    options = partial(EngineOptions, overlap=way.overlap, lookahead_tokens=0)  # type: ignore[arg-type]
    answers: dict[str, list[Answer]] = {ask.id: [] for ask in chosen}
    accepted: Counter[str] = Counter()
    ruled: Counter[str] = Counter()
    cached = 0
    draw = random.Random(str(way))
    with ExitStack() as stack:
        stack.enter_context(gate.installed())
        stack.enter_context(mock.patch("spectrie.llm.settings.EngineOptions", options))
        if way.loop == "python":
            make_levels_pay(stack.enter_context(pytest.MonkeyPatch.context()))
        llm = stack.enter_context(
            LLM(
                model,
                dtype=way.dtype,
                speculation=way.speculation if drafters else "off",  # type: ignore[arg-type]
                drafter=drafters,
                max_running=way.max_running,
                chunk_tokens=way.chunk_tokens,
                threads=way.threads,
                tensor_parallel=way.tensor_parallel,
                num_pages=way.num_pages,
                max_context=MAX_CONTEXT,
                memory_bytes=64 << 20 if way.memory == "kept" else 0,
                drafting_cost_ms=0.0,
                bigrams="off",
            )
        )
        if drafters and way.loop == "native" and way.speculation == "auto":
            chosen = [_fixed(ask) for ask in chosen]
        for _ in range(2):
            order = draw.sample(chosen, len(chosen))
            for ask, completion in zip(order, _completions(llm, order, gate), strict=True):
                for choice in completion.choices:
                    answers[ask.id].append(answer_of(choice))
                    accepted.update(choice.speculation.accepted_by_source)
                    if ask.form in RULED:
                        ruled.update(choice.speculation.accepted_by_source)
                    cached += choice.usage.cached_tokens
        load = llm.load()
    return Found(
        answers,
        accepted,
        ruled,
        cached,
        load.preemptions,
        gate.most_requests,
        [levels for levels, _, _ in load.drafters],
    )


def _fixed(ask: Ask) -> Ask:
    if ask.form != FIXED_FORM:
        return ask
    fixed = {"speculation": SpeculationOptions(mode="eagle2")}
    return dataclasses.replace(ask, options=ask.options | fixed)


def _completions(llm: LLM, order: Sequence[Ask], gate: Gate) -> list[Completion]:
    """The answers. No step runs before all were submitted; the late ones are read when all have ended."""
    with ExitStack() as stack, ThreadPoolExecutor(len(order)) as callers:
        streams = {
            ask.id: stack.enter_context(
                llm.stream(prompt_token_ids=list(ask.prompt_ids), **ask.options)
            )
            for ask in order
            if ask.form == "late"
        }
        others = [ask for ask in order if ask.form != "late"]
        asked = callers.map(
            lambda ask: llm.generate(prompt_token_ids=list(ask.prompt_ids), **ask.options), others
        )
        _await(llm, sum(ask.options.get("n", 1) for ask in order), gate)
        found = {ask.id: one for ask, one in zip(others, asked, strict=True)}
        found |= {name: stream.final() for name, stream in streams.items()}
    return [found[ask.id] for ask in order]


def _await(llm: LLM, number: int, gate: Gate) -> None:
    """Opens the gate when so many requests are there; it stays open for the second round."""
    deadline_s = time.monotonic() + SUBMITTED_WITHIN_S
    try:
        while not gate.is_open and llm.load().running + llm.load().waiting < number:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"fewer than {number} requests")
            time.sleep(0.002)
    finally:
        gate.open()
