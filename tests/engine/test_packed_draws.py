"""Tokens drawn from a packed step, at all nodes of all trees at once, are those that the engine draws
from logits node by node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from spectrie._core import (
    DeviceShape,
    Engine,
    FinishKind,
    GrammarCompiler,
    PackedSection,
    Plan,
    Request,
    Source,
    StepOutput,
    Tokenizer,
)
from spectrie._proto import worker_pb2
from spectrie_kernels import DrawRows, draw
from tests.engine.packed import Packed, pack
from tests.tiny_model import EOS_ID, VOCABULARY_SIZE, write_tiny_tokenizer

LETTERS = "the and for with to of in is it"
CONSTRAINTS = [
    ("regex", "( ?(the|and|for|with|to|of|in)){3,30}!"),
    ("regex", "[a-e ]{1,12}"),
    ("json_schema", '{"type":"array","items":{"enum":["the","with","they"]},"maxItems":9}'),
    ("choice", ["the one with the best", "the one with the most", "the end"]),
]
SHAPE = DeviceShape(4, 2, [None], VOCABULARY_SIZE)


class Model:
    """Logits that depend on a row's token and, a little, on its position; text repeats itself."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        shape = (VOCABULARY_SIZE, VOCABULARY_SIZE)
        self.by_token = rng.standard_normal(shape, dtype=np.float32)
        order = np.argsort(-self.by_token, axis=1, kind="stable")
        self.by_token[np.arange(VOCABULARY_SIZE), order[:, 0]] += 6
        self.top_ids = np.ascontiguousarray(order[:, :8], np.int32)
        self.top_probabilities = np.array(
            [0.6, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01, 0.01], np.float32
        )
        self.by_position = np.float32(0.25) * rng.standard_normal(
            (31, VOCABULARY_SIZE), dtype=np.float32
        )
        # Answers end at times.
        self.by_token[:, EOS_ID] += 1.5

    def logits(self, plan: Plan) -> NDArray[np.float32]:
        rows = plan.sample_rows
        token, position = plan.row_token[rows], plan.row_position[rows]
        logits: NDArray[np.float32] = self.by_token[token] + self.by_position[position % 31]
        return logits

    def tops(self, plan: Plan) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        ids = self.top_ids[plan.row_token[plan.top_rows]]
        return ids, np.tile(self.top_probabilities, (len(ids), 1))


def drawn_in_parts(logits: torch.Tensor, rows: DrawRows) -> NDArray[np.int32]:
    """Tokens of the first four rows, and then of the others."""
    parts = [(begin, end) for begin, end in ((0, 4), (4, len(logits))) if begin < len(logits)]
    drawn = [draw(logits[begin:end], rows.part(begin, end)) for begin, end in parts]
    tokens: NDArray[np.int32] = torch.cat(drawn).numpy() if drawn else np.zeros(0, np.int32)
    return tokens


class Running:
    """An engine that is given the model's logits, or tokens drawn from packed steps.

    Attributes:
        answers: By handle: the tokens and, once it ended, why.
        live: Requests that have not ended.
    """

    def __init__(self, model: Model, draws: bool) -> None:
        self.model = model
        self.draws = draws
        self.answers: dict[int, tuple[list[int], tuple[FinishKind, str | None] | None]] = {}
        self.live = 0
        self.engine = Engine(
            {
                "vocabulary_size": VOCABULARY_SIZE,
                "eos_token_ids": [EOS_ID],
                "num_pages": 200,
                "max_context": 400,
                "max_running": 6,
                "max_batch_rows": 256,
                "memory_bytes": 4 << 20,
                "holdout_every": 0,
                "drafting_cost_ms": 0.001,
            }
        )
        # Rows cost next to nothing, so that much is drafted.
        self.engine.set_costs([1, 256], [1.0, 1.05])

    def submit(self, request: Request) -> None:
        self.engine.submit(request)
        self.live += 1

    def step(self) -> tuple[Plan, Packed | None, StepOutput]:
        """A step; the last plan of an idle engine has ended all requests."""
        plan = self.engine.plan(0.0)
        assert plan is not None
        packed = pack(self.engine, plan, SHAPE) if self.draws else None
        logits = self.model.logits(plan)
        tops = self.model.tops(plan)
        number, rows = plan.plan_id, len(logits)
        if packed is not None and packed.step.is_drawn:
            drawn = drawn_in_parts(torch.from_numpy(logits), packed.draw_rows(VOCABULARY_SIZE))
            wanted = logits[plan.logit_samples]
            output = self.engine.commit_tokens(
                number, drawn, 1.0, 0.0, *tops, drawn=True, logits=wanted
            )
        else:
            output = self.engine.commit_logits(
                number, logits.ctypes.data, rows, VOCABULARY_SIZE, 1.0, 0.0, *tops
            )
        self._note(output)
        return plan, packed, output

    def _note(self, output: StepOutput) -> None:
        for index, handle in enumerate(output.handles):
            tokens, _ = self.answers.setdefault(handle, ([], None))
            tokens += output.token_ids[slice(*output.token_indptr[index : index + 2])]
            finish = output.finishes[index]
            if finish is not None:
                self.answers[handle] = tokens, (finish.kind, finish.message)
                self.live -= 1


def penalized(start: worker_pb2.Start, rng: np.random.Generator, words: list[int]) -> None:
    start.sampling.frequency_penalty = float(rng.uniform(0, 0.5))
    start.sampling.presence_penalty = float(rng.uniform(-0.5, 0.5))
    start.sampling.repetition_penalty = float(rng.uniform(0.9, 1.1))


def biased(start: worker_pb2.Start, rng: np.random.Generator, words: list[int]) -> None:
    for token in rng.choice(VOCABULARY_SIZE, 3, replace=False):
        start.sampling.logit_bias[int(token)] = float(rng.normal(0, 3))


def with_bad_words(start: worker_pb2.Start, rng: np.random.Generator, words: list[int]) -> None:
    for _ in range(12):
        ids = [int(one) for one in rng.choice(words, int(rng.integers(1, 4)))]
        start.sampling.bad_words.append(worker_pb2.TokenIds(ids=ids))


def with_minimum(start: worker_pb2.Start, rng: np.random.Generator, words: list[int]) -> None:
    start.min_tokens = int(rng.integers(1, start.max_tokens + 1))


Change = Callable[[worker_pb2.Start, np.random.Generator, list[int]], object]


def sampled(name: str, least: float, most: float) -> Change:
    def change(start: worker_pb2.Start, rng: np.random.Generator, words: list[int]) -> None:
        kind = int if name == "top_k" else float
        setattr(start.sampling, name, kind(rng.uniform(least, most)))

    return change


# How often a request has each option, and what that is.
OPTIONS: dict[str, tuple[float, Change]] = {
    "hot": (0.2, sampled("temperature", 1.1, 1.5)),
    "greedy": (0.3, sampled("temperature", 0, 0)),
    "top_k": (0.25, sampled("top_k", 1, 60)),
    "top_p": (0.25, sampled("top_p", 0.3, 0.99)),
    "min_p": (0.2, sampled("min_p", 0.001, 0.2)),
    "typical_p": (0.2, sampled("typical_p", 0.3, 0.99)),
    "penalties": (0.3, penalized),
    "bias": (0.3, biased),
    "bad_words": (0.3, with_bad_words),
    "min_tokens": (0.3, with_minimum),
    "stop_tokens": (0.2, lambda start, rng, words: start.stop_token_ids.append(words[0])),
    "ignore_eos": (0.2, lambda start, rng, words: setattr(start, "ignore_eos", True)),
    "stop_text": (0.1, lambda start, rng, words: start.stop.append("th")),
    "logprobs": (0.02, lambda start, rng, words: setattr(start, "logprobs", 2)),
}


def random_start(rng: np.random.Generator, words: list[int]) -> tuple[worker_pb2.Start, list[str]]:
    """A request with any of the options, and which it has."""
    start = worker_pb2.Start(
        prompt_ids=[int(one) for one in rng.choice(words, int(rng.integers(1, 60)))],
        max_tokens=int(rng.integers(1, 60)),
        sampling=worker_pb2.SamplingParameters(
            temperature=1.0, top_p=1.0, typical_p=1.0, repetition_penalty=1.0
        ),
        choice_seed=int(rng.integers(0, 2**64, dtype=np.uint64)),
        namespace="default",
        learn=True,
    )
    used = [name for name, (share, _) in OPTIONS.items() if rng.random() < share]
    for name in used:
        OPTIONS[name][1](start, rng, words)
    return start, used


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_folder(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def check_draws(plan: Plan, packed: Packed) -> None:
    """Draws are there exactly where the plan can do without logits."""
    assert packed.step.is_drawn == plan.is_drawable
    if not packed.step.is_drawn:
        assert packed.step.cuts == 0 and not packed.step.has_lists
        draws = [one for one in PackedSection if one >= PackedSection.SEED]
        assert not any(len(packed.section(one)) for one in draws)


class Traffic:
    """Requests with all options, each given to two engines."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.rng = np.random.default_rng(11)
        self.tokenizer = tokenizer
        self.words = tokenizer.encode(LETTERS)
        compiler = GrammarCompiler(tokenizer, [EOS_ID])
        self.grammars = [compiler.compile(kind, text) for kind, text in CONSTRAINTS]
        self.options: dict[int, list[str]] = {}

    def submit(self, engines: tuple[Running, Running]) -> None:
        start, used = random_start(self.rng, self.words)
        grammar = None
        if self.rng.random() < 0.3:
            used.append("grammar")
            grammar = self.grammars[int(self.rng.integers(0, len(CONSTRAINTS)))]
        handle = len(self.options) + 1
        self.options[handle] = used
        for running in engines:
            message = start.SerializeToString()
            running.submit(
                Request(message, handle=handle, grammar=grammar, tokenizer=self.tokenizer)
            )

    def accepted(self, output: StepOutput) -> Iterator[str]:
        """The options of each accepted draft."""
        for index, handle in enumerate(output.handles):
            for source in output.sources[slice(*output.token_indptr[index : index + 2])]:
                if source != Source.MODEL:
                    yield from self.options[handle]


def test_packed_steps_draw_what_the_engine_draws_from_logits(tokenizer: Tokenizer) -> None:
    model, traffic = Model(), Traffic(tokenizer)
    drawing, given = Running(model, draws=True), Running(model, draws=False)
    accepted: Counter[str] = Counter()
    drawn_steps = masks = rows_with_masks = 0
    while drawn_steps < 1_500 or drawing.live:
        while drawn_steps < 1_500 and drawing.live < 6:
            traffic.submit((drawing, given))
        plan, packed, output = drawing.step()
        assert packed is not None
        check_draws(plan, packed)
        if packed.step.is_drawn and len(plan.sample_rows):
            drawn_steps += 1
            accepted.update(traffic.accepted(output))
        allowed = packed.section(PackedSection.ALLOWED_ROW)
        rows_with_masks += int((allowed >= 0).sum())
        masks += int(allowed.max(initial=-1)) + 1
    while given.live:
        given.step()
    assert drawing.answers == given.answers
    assert len(drawing.answers) == len(traffic.options) > 500
    assert rows_with_masks > 2 * masks > 500, (rows_with_masks, masks)
    names = "greedy hot top_k top_p min_p typical_p penalties bias bad_words min_tokens grammar"
    assert min(accepted[name] for name in names.split()) > 50, accepted
    kinds = Counter(end[0] for _, end in drawing.answers.values() if end is not None)
    ended = (FinishKind.EOS, FinishKind.STOP_TOKEN, FinishKind.LENGTH, FinishKind.COMPLETE)
    assert min(kinds[kind] for kind in ended) > 5, kinds
