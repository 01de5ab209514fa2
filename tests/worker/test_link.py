"""A worker and its router: greeting, requests, cancels, learning, losing and finding each other."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from spectrie import _core
from spectrie._proto import worker_pb2
from spectrie.worker.channel import CHANNEL_OPTIONS
from tests.waiting import wait_until
from tests.worker.linked import Gate, Worker
from tests.worker.scripted import EOS_ID, WAIT_S, Hub


def test_greeting_is_hello_then_artifacts_then_ready(worker: Worker, hub: Hub) -> None:
    hello = hub.received.get(timeout=WAIT_S).hello
    assert (hello.protocol, hello.model, hello.model_hash) == (1, "counting", "a" * 64)
    assert hello.capacity.max_context == 256
    assert hello.capacity.max_running == 4
    assert list(hello.eos_token_ids) == [EOS_ID]
    assert not hello.HasField("drafter") and not hello.drafters
    assert hub.received.get(timeout=WAIT_S).artifact.name == "tokenizer.json"
    assert hub.received.get(timeout=WAIT_S).WhichOneof("message") == "ready"
    assert hub.metadata["authorization"] == "Bearer s3cret"


def test_request_gets_its_tokens_and_its_statistics(worker: Worker, hub: Hub) -> None:
    hub.start("r", attempt=3)
    outputs = hub.outputs("r")
    tokens = [token for output in outputs for token in output.token_ids]
    assert tokens == [4, 5, 6, 7, 8]
    assert sum(len(output.sources) for output in outputs) == 5
    last = outputs[-1]
    assert (last.attempt, last.finish) == (3, worker_pb2.FINISH_LENGTH)
    assert last.stats.verify_steps + last.stats.accepted_tokens == 4
    assert last.stats.prefill_ns > 0


def test_impossible_request_is_refused_with_the_limit(worker: Worker, hub: Hub) -> None:
    hub.start("big", max_tokens=1000)
    (output,) = hub.outputs("big")
    assert output.finish == worker_pb2.FINISH_INVALID
    assert "256" in output.message


def test_log_probabilities_come_with_their_tokens_and_the_prompts_once(
    worker: Worker, hub: Hub
) -> None:
    hub.start("told", logprobs=1, prompt_logprobs=0)
    outputs = hub.outputs("told")
    entries = [entry for output in outputs for entry in output.logprobs]
    ids = [token for output in outputs for token in output.token_ids]
    assert [entry.token_id for entry in entries] == ids == [4, 5, 6, 7, 8]
    for entry in entries:
        # One logit of 20 among 64, the others 0: a probability of almost one.
        assert entry.logprob == pytest.approx(0.0, abs=1e-6)
        assert list(entry.top_ids) == [entry.token_id]
        assert entry.top_logprobs[0] == entry.logprob
    told = [output.prompt_logprobs for output in outputs if output.prompt_logprobs]
    assert len(told) == 1
    assert [entry.token_id for entry in told[0]] == [1, 2, 3]
    assert [entry.HasField("logprob") for entry in told[0]] == [False, True, True]
    hub.start("silent")
    assert not any(output.logprobs or output.prompt_logprobs for output in hub.outputs("silent"))


def test_barred_words_and_odd_masses_reach_the_engine(worker: Worker, hub: Hub) -> None:
    sampling = worker_pb2.SamplingParameters(
        top_p=1, repetition_penalty=1, bad_words=[worker_pb2.TokenIds(ids=[4, 5])]
    )
    hub.start("barred", sampling=sampling)
    ids = [token for output in hub.outputs("barred") for token in output.token_ids]
    assert ids[0] == 4 and ids[1] != 5
    sampling = worker_pb2.SamplingParameters(top_p=1, repetition_penalty=1, typical_p=2)
    hub.start("odd", sampling=sampling)
    output = hub.outputs("odd")[-1]
    assert output.finish == worker_pb2.FINISH_INVALID
    assert "typical_p" in output.message


def test_requests_run_side_by_side_and_end_once_each(worker: Worker, hub: Hub) -> None:
    names = [f"r{index}" for index in range(9)]
    for index, name in enumerate(names):
        hub.start(name, prompt_ids=[index], max_tokens=index + 1)
    ends: dict[str, int] = {}
    tokens: dict[str, list[int]] = {name: [] for name in names}
    while len(ends) < len(names):
        for output in hub.next("step_output").outputs:
            tokens[output.request_id] += output.token_ids
            if output.finish:
                assert output.request_id not in ends
                ends[output.request_id] = output.finish
    assert tokens == {
        name: [index + 1 + k for k in range(index + 1)] for index, name in enumerate(names)
    }


def test_cancel_is_acknowledged_and_counts_what_is_kept(worker: Worker, hub: Hub) -> None:
    gate = Gate(worker)
    hub.start("r", max_tokens=200, speculation=worker_pb2.SPECULATION_MODE_OFF, learn=True)
    gate.let(4)
    count = 0
    while count < 4:
        count += sum(len(o.token_ids) for o in hub.next("step_output").outputs)
    cancel = worker_pb2.Cancel(request_id="r", keep_tokens=2, finished=True)
    hub.send(cancel=cancel)
    # A refusal comes without a step: once it is here, the cancel has been taken.
    hub.send(drain=worker_pb2.Drain())
    hub.start("fence")
    hub.outputs("fence")
    gate.open()
    outputs = hub.outputs("r")
    assert outputs[-1].finish == worker_pb2.FINISH_CANCELLED
    learned = hub.next("learned")
    assert (learned.namespace, list(learned.token_ids)) == ("default", [1, 2, 3, 4, 5])


def test_finished_request_is_told_to_others_unless_it_may_not_be_learnt(
    worker: Worker, hub: Hub
) -> None:
    hub.start("secret", learn=False)
    hub.outputs("secret")
    hub.start("open", learn=True, namespace="team", prompt_ids=[9])
    learned = hub.next("learned")
    assert (learned.namespace, list(learned.token_ids)) == ("team", [9, 10, 11, 12, 13, 14])


def test_request_of_a_forgotten_namespace_is_not_told_to_others(worker: Worker, hub: Hub) -> None:
    gate = Gate(worker)
    plain = worker_pb2.SPECULATION_MODE_OFF
    hub.start("old", learn=True, namespace="team", max_tokens=8, speculation=plain)
    gate.let(1)
    hub.next("step_output")
    forget = worker_pb2.ForgetNamespace(name="team")
    hub.send(admin_call=worker_pb2.AdminCall(call_id=7, forget_namespace=forget))
    reply = hub.next("admin_reply")
    assert (reply.call_id, reply.WhichOneof("reply")) == (7, "done")
    gate.open()
    assert hub.outputs("old")[-1].finish == worker_pb2.FINISH_LENGTH
    hub.start("new", learn=True, namespace="team", prompt_ids=[9])
    assert list(hub.next("learned").token_ids) == [9, 10, 11, 12, 13, 14]


def test_load_and_heartbeats_come_by_themselves(worker: Worker, hub: Hub) -> None:
    hub.start("r")
    hub.outputs("r")
    while hub.next("load").generated_tokens != 5:
        pass
    beat = hub.next("heartbeat")
    assert beat.steps >= 1 and not beat.busy
    # A chunk of the engine's 256 tokens on the runner's flat curve.
    assert 1.0 < beat.longest_step_ms < 100.0


def test_a_request_that_waits_for_a_step_is_pending_work(worker: Worker, hub: Hub) -> None:
    gate = Gate(worker)
    hub.start("r")
    while not hub.next("heartbeat").busy:
        pass
    gate.open()
    hub.outputs("r")
    while hub.next("heartbeat").busy:
        pass


def test_lost_blocks_of_a_corpus_are_reported_and_logged_once(
    worker: Worker, hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    builder = _core.CorpusBuilder("code", worker.host.tokenizer_fingerprint or "")
    for first in range(8_000):
        builder.push([first % 50, 7, first % 13, first % 31])
    path = tmp_path / "code.corpus"
    builder.finish(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    worker.host.engine.add_corpus(str(path))
    while hub.next("load").lost_corpus_blocks != 1:
        pass
    hub.next("load")
    warnings = [one for one in caplog.messages if "Blocks of corpora" in one]
    assert len(warnings) == 1
    assert "cut off: 1." in warnings[0]


def test_drain_refuses_new_requests_and_finishes_the_old(worker: Worker, hub: Hub) -> None:
    gate = Gate(worker)
    hub.start("old", max_tokens=6, speculation=worker_pb2.SPECULATION_MODE_OFF)
    gate.let(1)
    hub.next("step_output")
    hub.send(drain=worker_pb2.Drain())
    hub.start("new")
    (refused,) = hub.outputs("new")
    assert refused.finish == worker_pb2.FINISH_REFUSED
    assert "draining" in refused.message
    gate.open()
    assert hub.outputs("old")[-1].finish == worker_pb2.FINISH_LENGTH
    assert worker.link.drain(timeout_s=WAIT_S)
    assert worker.drains == [None]


def test_a_worker_that_drains_says_so_once_and_is_asked_within_the_grace(
    worker: Worker, hub: Hub
) -> None:
    hub.next("hello")
    hub.send(drain=worker_pb2.Drain(grace_ms=2500))
    hub.next("draining")
    hub.send(drain=worker_pb2.Drain())
    hub.start("fence")
    seen = []
    while (message := hub.received.get(timeout=WAIT_S)).WhichOneof("message") != "step_output":
        seen.append(message.WhichOneof("message"))
    assert "draining" not in seen
    assert worker.drains == [2.5, None]


def test_hanging_up_leaves_nothing_unsent(worker: Worker, hub: Hub) -> None:
    names = [f"r{index}" for index in range(20)]
    for name in names:
        hub.start(name)
    assert worker.link.num_running or hub.received.get(timeout=WAIT_S)
    wait_until(lambda: worker.host.engine.load().generated_tokens == 100, WAIT_S, lambda: "no end")
    assert worker.link.drain(timeout_s=WAIT_S)
    worker.link.close()
    ends: list[str] = []
    while len(ends) < len(names):
        outputs = hub.next("step_output").outputs
        ends += [output.request_id for output in outputs if output.finish]
    assert sorted(ends) == sorted(names)


@pytest.mark.parametrize(("good", "level"), [(True, "INFO"), (False, "WARNING")])
def test_a_router_that_stops_is_no_fault_and_one_that_breaks_off_is(
    worker: Worker, hub: Hub, caplog: pytest.LogCaptureFixture, good: bool, level: str
) -> None:
    caplog.set_level("INFO")
    hub.next("hello")
    if good:
        hub.hang_up()
    else:
        hub.break_off()
    text = "the router stopped" if good else "lost the router"
    wait_until(lambda: text in caplog.text, WAIT_S, lambda: caplog.text)
    (record,) = [one for one in caplog.records if text in one.getMessage()]
    assert record.levelname == level
    assert record.getMessage().endswith("; dialling again")


def test_worker_finds_a_restarted_router_and_drops_what_nobody_claims(
    worker: Worker, hub: Hub
) -> None:
    gate = Gate(worker)
    hub.start("lost", max_tokens=200)
    gate.let(1)
    hub.next("step_output")
    hub.close()
    again = Hub(hub.target)
    try:
        assert again.connected.acquire(timeout=WAIT_S)
        gate.open()
        assert again.next("hello").instance
        again.start("next")
        assert [t for o in again.outputs("next") for t in o.token_ids] == [4, 5, 6, 7, 8]
        while worker.host.engine.load().running:
            pass
        assert worker.host.engine.load().waiting == 0
    finally:
        again.close()


def test_channel_options_are_known_to_grpc() -> None:
    """grpc ignores unknown keys without a word, and two servers shipped one for years."""
    library = import_module("grpc._cython.cygrpc")
    content = Path(str(library.__file__)).read_bytes()
    for key, _ in CHANNEL_OPTIONS:
        assert key.encode() + b"\0" in content, key
    assert b"grpc.http2.min_ping_interval_without_data_ms\0" in content
