"""The Python face of the engine, driven by a model that is a table of next tokens."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from spectrie import types
from spectrie._core import (
    Engine,
    EngineError,
    Finish,
    FinishKind,
    Plan,
    Request,
    Source,
    SpeculationMode,
    StepOutput,
)
from spectrie._proto import inference_pb2, worker_pb2
from tests.engine.requests import request

VOCABULARY = 50


def make_engine(**options: object) -> Engine:
    values = {"num_pages": 32, "max_context": 200, "max_running": 8, **options}
    return Engine({"vocabulary_size": VOCABULARY, "eos_token_ids": [0], **values})


def logits_of(plan: Plan) -> NDArray[np.float32]:
    """Token t is followed by t + 1, and the last token of the vocabulary by 0."""
    tokens = plan.row_token[plan.sample_rows]
    logits = np.zeros((len(tokens), VOCABULARY), dtype=np.float32)
    logits[np.arange(len(tokens)), (tokens + 1) % VOCABULARY] = 30.0
    return logits


def commit(engine: Engine, plan: Plan) -> StepOutput:
    logits = logits_of(plan)
    return engine.commit_logits(
        plan.plan_id, logits.ctypes.data, len(logits), VOCABULARY, elapsed_ms=1.0, now_s=1.0
    )


def run(engine: Engine) -> tuple[dict[int, list[int]], dict[int, Finish]]:
    """Steps until idle; tokens and end of each request."""
    tokens: dict[int, list[int]] = {}
    finishes: dict[int, Finish] = {}

    def take(output: StepOutput) -> None:
        assert len(output.sources) == len(output.token_ids)
        for index, handle in enumerate(output.handles):
            span = slice(output.token_indptr[index], output.token_indptr[index + 1])
            tokens.setdefault(handle, []).extend(output.token_ids[span])
            finish = output.finishes[index]
            if finish is not None:
                assert handle not in finishes
                finishes[handle] = finish

    while (plan := engine.plan(0.0)) is not None:
        take(commit(engine, plan))
    take(engine.take_outputs())
    return tokens, finishes


def test_requests_emit_tokens_until_their_end() -> None:
    engine = make_engine()
    engine.submit(request(1, [5, 6, 7], 4, temperature=0.0))
    engine.submit(request(2, [46], 9, temperature=0.7, seed=2**64 - 1))
    tokens, finishes = run(engine)
    assert tokens == {1: [8, 9, 10, 11], 2: [47, 48, 49, 0]}
    assert (finishes[1].kind, finishes[2].kind) == (FinishKind.LENGTH, FinishKind.EOS)
    stats = worker_pb2.RequestStats.FromString(finishes[1].stats)
    assert stats.verify_steps + stats.accepted_tokens == 3
    load = engine.load()
    assert (load.running, load.waiting, load.pages_used, load.generated_tokens) == (0, 0, 0, 8)


def test_plans_are_typed_arrays() -> None:
    engine = make_engine()
    engine.submit(request(1, list(range(1, 21)), 4))
    plan = engine.plan(0.0)
    assert plan is not None
    assert plan.row_token.tolist() == list(range(1, 21))
    assert plan.row_token.dtype == np.int32 and plan.row_ancestors.dtype == np.int64
    assert (plan.page_indptr.tolist(), plan.sample_rows.tolist()) == ([0, 2], [19])
    with pytest.raises(EngineError, match=r"plan 1 is not committed yet"):
        engine.plan(0.0)


def test_unfit_requests_are_refused_with_the_limit() -> None:
    engine = make_engine()
    engine.submit(request(1, [], 4))
    engine.submit(request(2, [1], 200))
    engine.submit(request(3, [VOCABULARY], 1))
    _, finishes = run(engine)
    assert {finish.kind for finish in finishes.values()} == {FinishKind.REFUSED}
    assert "over the context of 200 tokens" in str(finishes[2].message)
    assert "allowed: 0 to 49" in str(finishes[3].message)


def test_commits_that_do_not_fit_are_errors_and_leave_the_plan_open() -> None:
    engine = make_engine()
    engine.submit(request(1, [3], 4))
    plan = engine.plan(0.0)
    assert plan is not None and not plan.is_greedy
    good = logits_of(plan)
    address = good.ctypes.data
    cases = [
        ((plan.plan_id + 1, address, 1, VOCABULARY), "plan 2 cannot be committed"),
        ((plan.plan_id, address, 2, VOCABULARY), "number of rows is 2"),
        ((plan.plan_id, address, 1, VOCABULARY - 1), "row stride is 49"),
        ((plan.plan_id, 0, 1, VOCABULARY), "not null"),
        ((plan.plan_id, address + 1, 1, VOCABULARY), "aligned to 4 bytes"),
    ]
    for arguments, message in cases:
        with pytest.raises(EngineError, match=message):
            engine.commit_logits(*arguments, 1.0, 1.0)
    with pytest.raises(EngineError, match="request 1 is not plain greedy"):
        engine.commit_tokens(plan.plan_id, np.array([4], dtype=np.int32), 1.0, 1.0)
    assert commit(engine, plan).token_ids == [4]
    with pytest.raises(EngineError, match="plan 1 cannot be committed"):
        commit(engine, plan)


def test_greedy_plans_take_token_ids() -> None:
    engine = make_engine()
    engine.submit(request(1, [3], 2, temperature=0.0))
    plan = engine.plan(0.0)
    assert plan is not None and plan.is_greedy
    output = engine.commit_tokens(plan.plan_id, np.array([17], dtype=np.int32), 1.0, 1.0)
    assert output.token_ids == [17]


def test_drawable_plans_take_drawn_token_ids() -> None:
    engine = make_engine()
    engine.submit(request(7, [3], 2, temperature=0.8))
    plan = engine.plan(0.0)
    assert plan is not None and plan.is_drawable and not plan.is_greedy
    assert plan.request_handle.tolist() == [7] and plan.request_handle.dtype == np.uint64
    drawn = np.array([17], dtype=np.int32)
    with pytest.raises(EngineError, match="request 7 is not plain greedy"):
        engine.commit_tokens(plan.plan_id, drawn, 1.0, 1.0)
    assert engine.commit_tokens(plan.plan_id, drawn, 1.0, 1.0, drawn=True).token_ids == [17]


def test_cancelled_and_failed_requests_end_once_and_free_their_pages() -> None:
    engine = make_engine()
    for handle in (1, 2):
        engine.submit(request(handle, [3] * 40, 50))
    plan = engine.plan(0.0)
    assert plan is not None
    commit(engine, plan)
    engine.cancel(1)
    plan = engine.plan(0.0)
    assert plan is not None
    output = engine.fail(plan.plan_id, "the forward failed", 1.0)
    kinds = {
        handle: finish.kind
        for handle, finish in zip(output.handles, output.finishes, strict=True)
        if finish is not None
    }
    assert kinds == {1: FinishKind.CANCELLED, 2: FinishKind.FAILED}
    assert engine.plan(0.0) is None and engine.load().pages_used == 0


def test_submitting_past_the_limit_or_a_known_handle_is_an_error() -> None:
    engine = make_engine(max_held=8)
    for handle in range(8):
        engine.submit(request(handle, [1], 1))
    with pytest.raises(EngineError, match="already holds 8 requests"):
        engine.submit(request(9, [1], 1))
    with pytest.raises(EngineError, match="handle 3 belongs"):
        engine.submit(request(3, [1], 1))
    with pytest.raises(ValueError, match="not a Start message"):
        Request(b"\xff", handle=1)


def test_likeliest_tokens_must_fit_the_plan() -> None:
    engine = make_engine(recycle="all")
    engine.submit(request(1, [3, 4, 5], 4))
    plan = engine.plan(0.0)
    assert plan is not None
    assert plan.top_rows.tolist() == [0, 1, 2] and plan.sample_rows.tolist() == [2]
    logits = logits_of(plan)
    ids = np.full((3, 8), -1, np.int32)
    cases = [
        (ids[:2], "number of top ids is 16; allowed: 24, 8 for each top row"),
        (np.full((3, 8), VOCABULARY, np.int32), "top id is 50; allowed: 0 to 49"),
    ]
    arguments = (plan.plan_id, logits.ctypes.data, 1, VOCABULARY, 1.0, 1.0)
    for given, message in cases:
        with pytest.raises(EngineError, match=message):
            engine.commit_logits(*arguments, given, np.zeros((3, 8), np.float32))
    output = engine.commit_logits(*arguments, ids, np.zeros((3, 8), np.float32))
    assert output.token_ids == [6]


@pytest.mark.parametrize(
    ("recycle", "top_rows"), [("off", []), ("decode", [2]), ("all", [0, 1, 2])]
)
def test_recycling_says_which_rows_it_wants(recycle: str, top_rows: list[int]) -> None:
    engine = make_engine(recycle=recycle)
    engine.submit(request(1, [3, 4, 5], 4))
    plan = engine.plan(0.0)
    assert plan is not None and plan.top_rows.tolist() == top_rows
    with pytest.raises(EngineError, match='recycle is "some"; allowed: off, decode, all'):
        make_engine(recycle="some")


def test_a_row_without_a_finite_logit_fails_its_request_alone() -> None:
    engine = make_engine()
    for handle in (1, 2):
        engine.submit(request(handle, [3], 2, temperature=0.0))
    plan = engine.plan(0.0)
    assert plan is not None
    output = engine.commit_tokens(plan.plan_id, np.array([-1, 4], dtype=np.int32), 1.0, 1.0)
    failed = output.finishes[output.handles.index(1)]
    assert failed is not None and failed.kind == FinishKind.FAILED
    assert output.finishes[output.handles.index(2)] is None


def test_everything_wrong_with_a_configuration_is_named_at_once() -> None:
    with pytest.raises(EngineError) as caught:
        Engine({"vocabulary_size": 0, "eos_token_ids": [0], "num_pages": 4, "max_depth": "deep"})
    assert str(caught.value).splitlines() == [
        "vocabulary_size is 0; allowed: 1 to 2147483647",
        'max_depth is "deep"; allowed: a whole number, 1 to 63',
        "max_context is missing; it must be given",
        "max_running is missing; it must be given",
    ]
    with pytest.raises(EngineError, match="max_running is 600; allowed: 1 to max_batch_rows, 512"):
        make_engine(max_running=600)


def test_numbers_of_numpy_are_numbers() -> None:
    assert make_engine(chunk_tokens=np.int64(7), max_step_ms=np.float32(50)).load().running == 0
    with pytest.raises(EngineError, match=r"chunk_tokens is 0\.5; allowed: 1 to 2147483647"):
        make_engine(chunk_tokens=np.float64(0.5))
    with pytest.raises(EngineError, match=r"max_held is 3[0-9]+; allowed: 1 to 2147483647"):
        make_engine(max_held=2**65)


def test_a_member_of_an_enum_is_an_option_by_its_name() -> None:
    engine = make_engine(speculation=SpeculationMode.OFF)
    with pytest.raises(EngineError, match="speculation is off"):
        engine.add_corpus("any.corpus")
    with pytest.raises(EngineError, match='speculation is "request"; allowed: auto, off, bfs'):
        make_engine(speculation=Source.REQUEST)


def test_enums_are_those_of_the_wire_and_of_clients() -> None:
    assert FinishKind(9) is FinishKind.COMPLETE
    kinds = {member.name: member.value for member in FinishKind}
    assert (
        kinds.items()
        <= {
            name.removeprefix("FINISH_"): number for name, number in worker_pb2.FinishKind.items()
        }.items()
    )
    sources = {member.name: member.value for member in Source}
    assert sources == {member.name: member.value for member in types.Source}
    assert sources == {
        name.removeprefix("SOURCE_"): number
        for name, number in inference_pb2.Source.items()
        if number
    }
    modes = {member.name: member.value for member in SpeculationMode}
    assert modes == {
        name.removeprefix("SPECULATION_MODE_"): number
        for name, number in inference_pb2.SpeculationMode.items()
        if number
    }
