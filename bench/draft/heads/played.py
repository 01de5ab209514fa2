"""An engine that serves recorded texts at given costs.

The engine is the one that serves, with all that it decides; its model and its drafter are recordings, and its clock is what
forwards, levels and questions are said to cost. So what a drafter is worth here depends on no machine, and equal traces
give equal figures. Answers of the head are known along the recorded output alone. Elsewhere it is taken to be as sure as
there, and nothing is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.draft import trace
from bench.draft.bigrams import read_bigrams
from bench.draft.recording.head_file import ANSWERS, ENDING, HeadAnswers, read_answers
from bench.draft.trace import TOP_K
from spectrie import _core
from spectrie._proto import worker_pb2
from spectrie.model.plan import LEFT_OUT
from spectrie.types import Source

__all__ = ["Costs", "Played", "Text", "joined", "play", "texts_of", "whole_bigrams"]

_VOCABULARY = 49152
_PAGES, _PAGE = 4096, 16
_LEVELS = 5


@dataclass(frozen=True, slots=True)
class Costs:
    """What things take, in milliseconds; the defaults are those of SmolLM2-135M in bfloat16 on two cores of an EPYC.

    Attributes:
        rows: Ascending numbers of rows of forwards.
        forward_ms: A forward of each.
        level_rows: Ascending numbers of rows of levels.
        first_ms: A first level of each.
        later_ms: A later one.
        upkeep: What a drafter adds for 64 tokens of prompts and outputs, as a share of a forward of 64 rows: entries
            of rows are computed 64 at a time, those of most rejected rows never, and none of requests that are left
            out. 63 took 1.1 % of a forward of 63 rows
            on two cores of an EPYC, in float32 and bfloat16.
        question_ms: Asking one request for its drafts.
    """

    rows: tuple[int, ...] = (1, 8, 16, 32, 64, 512)
    forward_ms: tuple[float, ...] = (8.94, 10.21, 14.52, 26.0, 48.0, 360.0)
    level_rows: tuple[int, ...] = (1, 8, 16, 32, 64)
    first_ms: tuple[float, ...] = (0.80, 0.83, 1.30, 2.45, 4.45)
    later_ms: tuple[float, ...] = (0.55, 0.65, 1.15, 2.20, 4.10)
    upkeep: float = 0.011
    question_ms: float = 0.03

    def forward(self, rows: int) -> float:
        """A forward of so many rows."""
        return float(np.interp(rows, self.rows, self.forward_ms))

    def entry(self) -> float:
        """What a drafter keeps of one token."""
        return self.upkeep * self.forward(64) / 64

    def level(self, level: int, rows: int) -> float:
        """A level of so many rows; levels count from 1."""
        times = self.first_ms if level == 1 else self.later_ms
        return float(np.interp(rows, self.level_rows, times))


@dataclass(frozen=True, slots=True)
class Text:
    """A recorded request, and what the head answered along it."""

    request: trace.Request
    head: HeadAnswers

    @property
    def tokens(self) -> list[int]:
        """Prompt and output."""
        return [*self.request.prompt_ids, *self.request.output_ids]


@dataclass(slots=True)
class Played:
    """What came of texts.

    Attributes:
        milliseconds: Time of all of it, by the costs.
        tokens: Tokens of the outputs.
        steps: Of each step that decoded, in turn: output tokens before it of all that run, and levels that were asked.
        rows: Rows of levels.
        drafted: Rows of drafts.
    """

    milliseconds: float = 0.0
    tokens: int = 0
    steps: list[tuple[int, int]] = field(default_factory=list)
    rows: int = 0
    drafted: int = 0

    @property
    def asked(self) -> float:
        """Share of the steps in which the drafter was asked."""
        return sum(levels > 0 for _, levels in self.steps) / max(len(self.steps), 1)


def texts_of(name: str, split: str = "report") -> list[Text]:
    """The texts of a trace; the head's answers are empty where none are recorded."""
    path = trace.folder(split) / f"{name}.jsonl.xz"
    requests = trace.read(path)
    answers = ANSWERS / split / f"{name}{ENDING}"
    heads: Sequence[HeadAnswers]
    if answers.is_file():
        _, heads = read_answers(answers, path)
    else:
        heads = [[[] for _ in request.output_ids] for request in requests]
    return [Text(request, head) for request, head in zip(requests, heads, strict=True)]


def joined(texts: Sequence[Text]) -> Text:
    """One text whose output is those of all, behind the prompt of the first."""
    first = texts[0].request
    outputs = [token for text in texts for token in text.request.output_ids]
    topk = None
    if all(text.request.topk is not None for text in texts):
        topk = list((first.topk or [])[: len(first.prompt_ids)])
        for text in texts:
            topk += (text.request.topk or [])[len(text.request.prompt_ids) :]
    request = trace.Request(first.prompt_ids, outputs, first.prediction_ids, topk)
    return Text(request, [levels for text in texts for levels in text.head])


class _Model:
    """Forwards and levels by recordings."""

    def __init__(self, texts: dict[int, Text]) -> None:
        self._texts = {handle: (text.tokens, text) for handle, text in texts.items()}
        # Which request owns a page: prompts share none here.
        self._owner: dict[int, int] = {}
        self._is_taken: list[bool] = []

    def forward(
        self, plan: _core.Plan
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """The token of each sampled row, and the likeliest tokens of the rows that want them."""
        handles, indptr, pages = plan.request_handle, plan.page_indptr, plan.page_ids
        tokens, positions = plan.row_token.tolist(), plan.row_position.tolist()
        parents, owners = plan.row_parent.tolist(), plan.row_owner.tolist()
        starts, kinds = plan.request_row_start.tolist(), plan.request_kind.tolist()
        for index, handle in enumerate(handles.tolist()):
            for page in pages[indptr[index] : indptr[index + 1]].tolist():
                self._owner[page] = handle
        nexts: list[int] = []
        is_on: list[bool] = []
        entries: list[tuple[list[int], list[float]]] = []
        for row, (token, position) in enumerate(zip(tokens, positions, strict=True)):
            owner = owners[row]
            whole, text = self._texts[int(handles[owner])]
            above = parents[row] if kinds[owner] else -1
            on = (above < 0 or is_on[starts[owner] + above]) and whole[position] == token
            is_on.append(on)
            nexts.append(whole[position + 1] if on and position + 1 < len(whole) else 0)
            topk = text.request.topk
            entries.append(topk[position] if on and topk else ([], []))
        sampled = np.array([nexts[row] for row in plan.sample_rows.tolist()], np.int32)
        top = plan.top_rows.tolist()
        ids = np.full((len(top), TOP_K), -1, np.int32)
        probabilities = np.zeros((len(top), TOP_K), np.float32)
        for index, row in enumerate(top):
            named, known = entries[row]
            ids[index, : len(named)] = named[:TOP_K]
            probabilities[index, : len(known)] = known[:TOP_K]
        return sampled, ids, probabilities

    def level(
        self, plan: _core.DraftPlan
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        """The answers of a level."""
        if plan.level == 1:
            self._is_taken = []
        rows = len(plan.row_token)
        ids = np.full((rows, TOP_K), -1, np.int32)
        probabilities = np.zeros((rows, TOP_K), np.float32)
        scored = np.full(len(plan.scored_token), -np.inf, np.float32)
        for row in range(rows):
            request = int(plan.row_request[row])
            handle = self._owner[int(plan.page_ids[plan.page_indptr[request]])]
            whole, text = self._texts[handle]
            position, parent = int(plan.row_position[row]), int(plan.row_parent[row])
            is_taken = (parent < 0 or self._is_taken[parent]) and whole[position] == int(
                plan.row_token[row]
            )
            self._is_taken.append(is_taken)
            index = int(plan.request_kv_len[request]) + 1 - len(text.request.prompt_ids)
            levels = text.head[index] if index < len(text.head) else []
            if plan.level > len(levels):
                continue
            named, known, others, theirs = levels[plan.level - 1]
            ids[row, : len(named)] = named
            probabilities[row, : len(known)] = known
            said = dict(zip([*others, *named], [*theirs, *known], strict=True)) if is_taken else {}
            for at in range(int(plan.scored_indptr[row]), int(plan.scored_indptr[row + 1])):
                token = int(plan.scored_token[at])
                if said.get(token, 0.0) > 0:
                    scored[at] = np.log(said[token])
        return ids, probabilities, scored


def play(
    texts: Sequence[Text],
    *,
    head: bool,
    at_a_time: int = 1,
    costs: Costs | None = None,
    bigrams: _core.Bigrams | None = None,
    learn: bool = False,
    speculation: str = "auto",
) -> Played:
    """Answers texts, so many at a time, each batch by itself.

    Args:
        texts: What is asked and what the model says.
        head: Whether the drafter is there.
        at_a_time: Requests side by side.
        costs: What things take.
        bigrams: What the model says after one token alone, for the whole vocabulary.
        learn: Whether requests learn from those before them.
        speculation: The mode.
    """
    costs = Costs() if costs is None else costs
    engine = _engine(costs, at_a_time, speculation, head=head)
    if bigrams is not None:
        engine.set_bigrams(bigrams)
    played = Played()
    handles = range(1, len(texts) + 1)
    model = _Model(dict(zip(handles, texts, strict=True)))
    for first in range(0, len(texts), at_a_time):
        batch = list(zip(handles, texts, strict=True))[first : first + at_a_time]
        for handle, text in batch:
            namespace = f"n{handle if not learn else handle % at_a_time}"
            engine.submit(_core.Request(_start(text, namespace, learn), handle=handle))
        _serve(engine, model, costs, played, head=head)
    played.tokens = sum(len(text.request.output_ids) for text in texts)
    return played


def _serve(
    engine: _core.Engine, model: _Model, costs: Costs, played: Played, *, head: bool
) -> None:
    tokens = 0
    while True:
        now = played.milliseconds / 1e3
        levels = 0
        while (level := engine.draft_plan(now)) is not None:
            took = costs.level(level.level, len(level.row_token))
            engine.draft_results(*model.level(level), took)
            played.milliseconds += took
            played.rows += len(level.row_token)
            levels += 1
        plan = engine.plan(now)
        if plan is None:
            return
        rows = len(plan.row_token)
        took = costs.forward(rows)
        sampled, ids, probabilities = model.forward(plan)
        output = engine.commit_tokens(plan.plan_id, sampled, took, now, ids, probabilities)
        decoding = int(np.count_nonzero(plan.request_kind))
        took += costs.entry() * _num_kept(plan, output) * head
        played.milliseconds += took + decoding * costs.question_ms
        if decoding:
            played.steps.append((tokens, levels))
            played.drafted += int(plan.request_row_count[plan.request_kind == 1].sum()) - decoding
        tokens += len(output.token_ids)


def _num_kept(plan: _core.Plan, output: _core.StepOutput) -> int:
    """Tokens of a step of which a drafter keeps entries: of prompts and outputs, but for those of which it keeps nothing."""
    is_left_out = plan.request_feature == LEFT_OUT
    kept = np.zeros(len(plan.request_kind), np.bool_)
    kept[: len(is_left_out)] = ~is_left_out
    owners = plan.row_owner
    is_prompt = (plan.request_kind[owners] == 0) & kept[owners]
    first = plan.request_first[owners[is_prompt]]
    prompts = np.count_nonzero(plan.row_position[is_prompt] >= first)
    # Those of an output, which lie behind what is in the cache.
    emitted = dict(zip(output.handles, np.diff(output.token_indptr).tolist(), strict=True))
    outputs = 0
    for index in np.flatnonzero(kept):
        count = emitted.get(int(plan.request_handle[index]), 0)
        passed = int(plan.request_first[index]) - int(plan.request_kv_len[index])
        outputs += max(count - max(passed, 0), 0) if plan.request_kind[index] else count
    return int(prompts) + outputs


def _engine(costs: Costs, at_a_time: int, speculation: str, *, head: bool) -> _core.Engine:
    engine = _core.Engine(
        {
            "vocabulary_size": _VOCABULARY,
            "eos_token_ids": [],
            "num_pages": _PAGES,
            "page_size": _PAGE,
            "max_context": 8192,
            "max_running": at_a_time,
            "max_batch_rows": 512,
            "speculation": speculation,
            "max_draft_tokens": 16,
            "drafting_cost_ms": costs.question_ms,
            "holdout_every": 0,
            "recycle": "decode",
        }
    )
    engine.set_costs(costs.rows, costs.forward_ms)
    if head:
        engine.add_drafter(
            source=Source.HEAD,
            max_levels=_LEVELS,
            max_rows=64,
            rows=costs.level_rows,
            first_ms=costs.first_ms,
            later_ms=costs.later_ms,
        )
        engine.set_drafter_upkeep(costs.entry())
    return engine


def _start(text: Text, namespace: str, learn: bool) -> bytes:
    sampling = worker_pb2.SamplingParameters(temperature=0.0, top_p=1.0, repetition_penalty=1.0)
    return worker_pb2.Start(
        prompt_ids=text.request.prompt_ids,
        prediction_ids=text.request.prediction_ids or [],
        max_tokens=len(text.request.output_ids),
        sampling=sampling,
        namespace=namespace,
        learn=learn,
    ).SerializeToString()


def whole_bigrams(path: Path) -> _core.Bigrams:
    """The table of a split for the whole vocabulary; a trace's ends at the last token that it needs."""
    ids, probabilities = read_bigrams(path).rows()
    missing = ((0, _VOCABULARY - len(ids)), (0, 0))
    return _core.Bigrams(np.pad(ids, missing), np.pad(probabilities, missing))
