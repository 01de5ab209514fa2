"""Steps of a GPU in which some rows want log-probabilities: what the others give, and what is sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from bench.gpu.fake_device import FakeDevice
from spectrie import _core
from spectrie._proto import worker_pb2
from spectrie.engine import python_steps
from spectrie.engine.python_steps import PythonSteps
from spectrie.model import Runner
from spectrie.model.plan import StepResult
from spectrie.model.step.wanted import Wanted
from tests.tiny_model import EOS_ID, VOCABULARY_SIZE, write_tiny_tokenizer

Told = tuple[int, float, tuple[int, ...], tuple[float, ...]]

# Options of each request; those with `choice` share a prompt and a seed, as the choices of one request do.
REQUESTS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"logprobs": 3},
    {"frequency_penalty": 0.7, "presence_penalty": 0.3, "repetition_penalty": 1.2},
    {"regex": "[a-m ]{5,40}"},
    {"regex": "( ?(the|and|for|with)){3,30}", "logprobs": 2},
    {"choice": 0},
    {"choice": 1},
    {"choice": 0, "logprobs": 0},
    {"choice": 1, "logprobs": 0},
    {"prompt_logprobs": 2, "top_k": 5},
    {"temperature": 0.0, "logprobs": 1, "repetition_penalty": 1.3},
    {"bad_words": True, "min_tokens": 12, "top_p": 0.8},
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> _core.Tokenizer:
    return _core.Tokenizer.from_folder(write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def request(handle: int, tokenizer: _core.Tokenizer, options: dict[str, Any]) -> _core.Request:
    source = np.random.default_rng(100 if "choice" in options else handle)
    start = worker_pb2.Start(
        prompt_ids=source.integers(10, 300, size=options.get("prompt", 9 + handle % 3)).tolist()
        if "choice" not in options
        else [40, 41, 42, 40, 41, 42, 40],
        max_tokens=24 + handle,
        sampling=worker_pb2.SamplingParameters(
            temperature=1.0, top_p=1.0, typical_p=1.0, repetition_penalty=1.0
        ),
        choice_seed=_core.choice_seed(7, options["choice"]) if "choice" in options else handle,
        namespace="default",
        learn=True,
    )
    grammar = None
    for name, value in options.items():
        if name == "regex":
            grammar = _core.GrammarCompiler(tokenizer, [EOS_ID]).compile(name, value)
        elif name == "bad_words":
            start.sampling.bad_words.append(worker_pb2.TokenIds(ids=[40, 41]))
        elif name in ("logprobs", "prompt_logprobs", "min_tokens"):
            setattr(start, name, value)
        elif name not in ("choice", "prompt"):
            setattr(start.sampling, name, value)
    return _core.Request(
        start.SerializeToString(), handle=handle, grammar=grammar, tokenizer=tokenizer
    )


def told(given: _core.TokenLogprobs | None) -> Told | None:
    if given is None:
        return None
    return given.token_id, given.logprob, tuple(given.top_ids), tuple(given.top_logprobs)


class Watched(PythonSteps):
    """Steps of which it is noted what they sent.

    Attributes:
        counts: Sampled rows, those of them that ask, rows of logits that came, and drafts, in steps that
            have rows of both kinds; and how many such steps there were.
    """

    sends_all = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.counts: Counter[str] = Counter()

    def _wanted(self, plan: _core.Plan) -> Wanted:
        if self.sends_all and len(plan.logit_samples):
            return Wanted.LOGITS
        return super()._wanted(plan)

    def _commit(self, step: python_steps._Step, result: StepResult) -> None:
        rows, asking = len(step.plan.sample_rows), len(step.plan.logit_samples)
        if 0 < asking < rows:
            self.counts["steps"] += 1
            self.counts["rows"] += rows
            self.counts["asking"] += asking
            self.counts["logits"] += len(result.logits)
            trees = step.plan.request_row_count[step.plan.request_kind == 1]
            self.counts["drafted"] += int((trees - 1).sum())
        super()._commit(step, result)


class SendingAll(Watched):
    """All rows of a step send their logits where any asks."""

    sends_all = True


def run(
    gpu: tuple[Runner, FakeDevice],
    tokenizer: _core.Tokenizer,
    kind: type[Watched],
    speculation: str,
    requests: list[dict[str, Any]] = REQUESTS,
    **limits: int,
) -> tuple[dict[int, list[Any]], Counter[str]]:
    """Of each request tokens, log-probabilities, those of its prompt, and why it ended; and the counts."""
    runner, device = gpu
    engine = _core.Engine(
        {
            "vocabulary_size": VOCABULARY_SIZE,
            "eos_token_ids": [EOS_ID],
            "num_pages": runner.num_pages,
            "max_context": 512,
            "max_running": 16,
            "holdout_every": 0,
            "drafting_cost_ms": 0.001,
            "speculation": speculation,
            **limits,
        }
    )
    # Rows cost next to nothing, so that much is drafted.
    engine.set_costs([1, 256], [1.0, 1.05])
    answers: dict[int, list[Any]] = {}

    def deliver(output: _core.StepOutput) -> None:
        bounds = output.token_indptr
        for index, handle in enumerate(output.handles):
            answer = answers.setdefault(handle, [[], [], None, None])
            answer[0] += output.token_ids[bounds[index] : bounds[index + 1]]
            answer[1] += map(told, output.logprobs(index) or ())
            prompt = output.prompt_logprobs(index)
            if prompt is not None:
                answer[2] = [*map(told, prompt)]
            finish = output.finishes[index]
            answer[3] = finish and (finish.kind, finish.message)

    for handle, options in enumerate(requests, 1):
        engine.submit(request(handle, tokenizer, options))
    steps = kind(engine, runner, deliver)
    steps.run(0.0, rested=True)
    steps.close()
    assert not device.is_busy
    return answers, steps.counts


@pytest.mark.parametrize("speculation", ["off", "auto"])
def test_rows_that_ask_send_their_logits_alone_and_nothing_else_changes(
    gpu: tuple[Runner, FakeDevice], tokenizer: _core.Tokenizer, speculation: str
) -> None:
    mixed, counts = run(gpu, tokenizer, Watched, speculation)
    expected, before = run(gpu, tokenizer, SendingAll, speculation)
    assert mixed.keys() == expected.keys() == set(range(1, len(REQUESTS) + 1))
    for handle, options in enumerate(REQUESTS, 1):
        tokens, logprobs, prompt, finish = mixed[handle]
        assert (tokens, finish) == (expected[handle][0], expected[handle][3])
        assert len(logprobs) == (len(tokens) if "logprobs" in options else 0)
        assert same(logprobs, expected[handle][1])
        assert (prompt is not None) == ("prompt_logprobs" in options)
        assert same(prompt or [], expected[handle][2] or [])
    assert counts["steps"] > 15
    assert counts["logits"] == counts["asking"]
    assert before["logits"] == before["rows"]
    assert (counts["drafted"] > 0) == (speculation == "auto")


def test_a_prompt_that_asks_leaves_the_recorded_head_to_others(
    gpu: tuple[Runner, FakeDevice], tokenizer: _core.Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    """Until its last chunk none of its rows is sampled: it takes no room among the lists of those that are."""
    requests: list[dict[str, Any]] = [{"top_k": 5}, {"prompt": 90, "logprobs": 1}]
    answers, counts = run(gpu, tokenizer, Watched, "off", requests, chunk_tokens=16)
    assert len(answers[1][0]) > 6 and len(answers[2][1]) == len(answers[2][0])
    assert counts["steps"] > 0
    assert "have room for" not in caplog.text


def same(given: list[Told | None], expected: list[Told | None]) -> bool:
    """Whether log-probabilities are the same but for the rounding of torch's products, which knows how many
    rows a head has."""
    return len(given) == len(expected) and all(
        one == other
        or (
            one is not None
            and other is not None
            and (one[0], one[2]) == (other[0], other[2])
            and np.allclose([one[1], *one[3]], [other[1], *other[3]], rtol=0, atol=1e-5)
        )
        for one, other in zip(given, expected, strict=True)
    )
