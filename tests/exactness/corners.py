"""Uses of drafting that the matrix has not: namespaces, a corpus, nothing learnt, late readers, long contexts.

Each is asked twice, so that drafts come from what the first answer taught.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from spectrie import _core
from spectrie.engine.options import EngineOptions
from spectrie.llm import LLM
from spectrie.types import Completion, SpeculationOptions
from tests.exactness.matrix import Answer, Combination, answer_of
from tests.waiting import wait_until

__all__ = ["CORNERS", "UNLEARNT", "Ask", "Found", "asks", "run", "write_corpus"]

CORNERS = ("namespaces", "corpus", "unlearnt", "late", "long")
UNLEARNT = "unlearnt"
"""The namespace of requests that forbid to learn."""

CONTEXT_TOKENS = 4096
PAGES = 3 * CONTEXT_TOKENS // 16
NEW_TOKENS = 32
CALLERS = 8
ENDS_WITHIN_S = 300.0
FORMS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.8, "top_p": 0.95},
    {"temperature": 0.0, "logprobs": 4, "repetition_penalty": 1.1},
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        id: Corner, prompt, form and namespace.
        corner: One of `CORNERS`.
        prompt_ids: Tokens of the prompt.
        options: Options of `LLM.generate`.
    """

    id: str
    corner: str
    prompt_ids: tuple[int, ...]
    options: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Found:
    """What came of the requests.

    Attributes:
        answers: The answers to each request, by its id.
        accepted: Accepted draft tokens by corner and source.
        learnt: Tokens of text by namespace, at the end.
    """

    answers: dict[str, list[Answer]]
    accepted: dict[str, Counter[str]]
    learnt: dict[str, int]


def asks(prompts: Sequence[Sequence[int]], stops: Sequence[str], longest: int) -> list[Ask]:
    """Requests of every corner.

    Args:
        prompts: Tokens of three prompts or more.
        stops: Stop texts, some of which come in answers.
        longest: Tokens of the longest context, at most 4096.
    """
    found: list[Ask] = []

    def add(corner: str, name: str, prompt: Sequence[int], form: int, **options: Any) -> None:
        given = {"max_tokens": NEW_TOKENS, "seed": len(found), "namespace": corner}
        options = given | FORMS[form] | options
        ask_id = f"{corner} {name} form{form} {options['namespace']}"
        found.append(Ask(ask_id, corner, tuple(prompt), options))

    for index, prompt in enumerate(prompts):
        for client in ("client-a", "client-b"):
            # Neighbours in memory that begin alike and go on otherwise.
            add("namespaces", f"prompt{index}", prompt, index % 3, namespace=client)
        add("corpus", f"prompt{index}", prompt, 0)
        nothing = SpeculationOptions(learn=False)
        add("unlearnt", f"prompt{index}", prompt, index % 3, speculation=nothing)
        add("late", f"prompt{index}", prompt, index % 2, stop=list(stops), max_tokens=96)
    draw = random.Random(5)
    for index, share in enumerate((8, 4, 2, 1)):
        # Passages in a random order: all of a long context is there to be found again.
        passages = [tuple(prompt) for prompt in prompts]
        wanted = longest // share - NEW_TOKENS
        text: list[int] = []
        while len(text) < wanted:
            text += draw.choice(passages)
        add("long", f"{longest // share}tokens", text[-wanted:], index % 3)
    return found


def write_corpus(path: Path, folder: Path, chosen: Sequence[Ask], found: Found) -> Path:
    """Writes a corpus of the answers of the corpus corner, and of others that begin as they do."""
    fingerprint = _core.tokenizer_fingerprint(folder / "tokenizer.json")
    builder = _core.CorpusBuilder("answers", fingerprint)
    for ask in chosen:
        if ask.corner == "corpus":
            answer = list(found.answers[ask.id][0].token_ids)
            builder.push([*ask.prompt_ids, *answer])
            builder.push([*ask.prompt_ids, *answer[:4], *reversed(answer)])
    builder.finish(path)
    return path


def run(folder: Path, way: Combination, chosen: Sequence[Ask], corpus: Path | None = None) -> Found:
    """Answers every request twice under a combination, in orders of its own.

    Args:
        folder: The model.
        way: Its pages and ranks are not used.
        chosen: The requests.
        corpus: Drafted from by all of them.
    """
    # With overlap a thread learns while a forward runs.
    options = partial(EngineOptions, overlap=way.overlap)  # type: ignore[arg-type]
    with (
        mock.patch("spectrie.llm.settings.EngineOptions", options),
        LLM(
            folder,
            dtype=way.dtype,
            speculation=way.speculation,  # type: ignore[arg-type]
            max_running=way.concurrency,
            chunk_tokens=way.chunk_tokens,
            threads=way.threads,
            num_pages=PAGES,
            max_context=CONTEXT_TOKENS,
            drafting_cost_ms=0.0,
            bigrams="off",
            corpora=[] if corpus is None else [str(corpus)],
        ) as llm,
    ):
        answers: dict[str, list[Answer]] = {ask.id: [] for ask in chosen}
        accepted: dict[str, Counter[str]] = {corner: Counter() for corner in CORNERS}
        for order in _orders(chosen, way):
            for ask, completion in zip(order, _completions(llm, order), strict=True):
                answers[ask.id].append(answer_of(completion))
                accepted[ask.corner].update(completion.speculation.accepted_by_source)
        learnt = {one.name: one.num_tokens for one in llm._host.engine.namespaces()}
    return Found(answers, accepted, learnt)


def _orders(chosen: Sequence[Ask], way: Combination) -> list[list[Ask]]:
    draw = random.Random(str(way))
    return [draw.sample(chosen, len(chosen)) for _ in range(2)]


def _completions(llm: LLM, order: Sequence[Ask]) -> list[Completion]:
    """The answers; those of the late corner are read when all have ended."""
    late = [ask for ask in order if ask.corner == "late"]
    found: dict[str, Completion] = {}
    with ExitStack() as stack, ThreadPoolExecutor(CALLERS) as callers:
        streams = {
            ask.id: stack.enter_context(
                llm.stream(prompt_token_ids=list(ask.prompt_ids), **ask.options)
            )
            for ask in late
        }
        others = [ask for ask in order if ask.corner != "late"]
        for ask, completion in zip(
            others, callers.map(partial(_generate, llm), others), strict=True
        ):
            found[ask.id] = completion
        wait_until(
            lambda: not llm.load().running + llm.load().waiting,
            ENDS_WITHIN_S,
            lambda: "requests still run",
        )
        found |= {name: stream.final() for name, stream in streams.items()}
    return [found[ask.id] for ask in order]


def _generate(llm: LLM, ask: Ask) -> Completion:
    return llm.generate(prompt_token_ids=list(ask.prompt_ids), **ask.options)
