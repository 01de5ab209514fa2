"""Requests that go on where another worker left them: as if nothing had happened, and counted once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spectrie import _core
from spectrie._proto import worker_pb2
from tests.tiny_model import write_tiny_tokenizer
from tests.worker.linked import Worker
from tests.worker.scripted import WAIT_S, Hub

WHOLE = [4, 5, 6, 7, 8, 9, 10, 11]
"""What follows the prompt 1, 2, 3."""


@pytest.fixture
def texts(tmp_path: Path) -> _core.Tokenizer:
    """The tokenizer of the workers below: a character each for the ids that they emit."""
    return _core.Tokenizer.from_folder(str(write_tiny_tokenizer(tmp_path / "tiny")))


@pytest.fixture
def worker(folder: Path, hub: Hub, texts: _core.Tokenizer) -> Iterator[Worker]:
    """A worker with a tokenizer."""
    (folder / "tokenizer.json").write_text((folder / "tiny" / "tokenizer.json").read_text())
    worker = Worker(folder, hub.target)
    assert hub.connected.acquire(timeout=WAIT_S)
    yield worker
    worker.close()


def resume(hub: Hub, kept: int, **fields: Any) -> list[worker_pb2.RequestOutput]:
    """Resumes a request behind so many tokens, as the attempt after; its outputs."""
    name = f"r{kept}"
    values = {"attempt": 1 + (kept > 0), "max_tokens": len(WHOLE), **fields}
    hub.start(name, emitted_token_ids=WHOLE[:kept], **values)
    return hub.outputs(name)


def tokens_of(outputs: list[worker_pb2.RequestOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


@pytest.mark.parametrize("kept", range(len(WHOLE) + 1))
def test_the_rest_is_emitted_once_and_the_whole_is_taught_to_others(
    worker: Worker, hub: Hub, kept: int
) -> None:
    outputs = resume(hub, kept, learn=True, namespace="team")
    assert tokens_of(outputs) == WHOLE[kept:]
    assert sum(len(output.sources) for output in outputs) == len(WHOLE) - kept
    last = outputs[-1]
    assert (last.attempt, last.finish) == (1 + (kept > 0), worker_pb2.FINISH_LENGTH)
    emitted = len(WHOLE) - kept
    assert last.stats.verify_steps + last.stats.accepted_tokens == max(0, emitted - 1)
    learned = hub.next("learned")
    assert (learned.namespace, list(learned.token_ids)) == ("team", [1, 2, 3, *WHOLE])
    assert learned.attempt == last.attempt


def test_log_probabilities_are_those_of_the_rest_and_the_prompts_are_not_repeated(
    worker: Worker, hub: Hub
) -> None:
    outputs = resume(hub, 3, logprobs=1, prompt_logprobs=1)
    entries = [entry.token_id for output in outputs for entry in output.logprobs]
    assert entries == WHOLE[3:]
    assert not any(output.prompt_logprobs for output in outputs)
    outputs = resume(hub, 0, logprobs=1, prompt_logprobs=1)
    assert [len(output.prompt_logprobs) for output in outputs if output.prompt_logprobs] == [3]


@pytest.mark.parametrize("kept", range(5))
def test_a_stop_text_that_began_before_the_cut_is_found(
    worker: Worker, hub: Hub, texts: _core.Tokenizer, kept: int
) -> None:
    stop = texts.decode(WHOLE[2:5])
    outputs = resume(hub, kept, stop=[stop])
    assert tokens_of(outputs) == WHOLE[kept:5]
    assert outputs[-1].finish == worker_pb2.FINISH_COMPLETE


@pytest.mark.parametrize("kept", range(5))
def test_a_grammar_goes_on_from_its_state_at_the_cut(
    worker: Worker, hub: Hub, texts: _core.Tokenizer, kept: int
) -> None:
    choice = worker_pb2.Choices(texts=[texts.decode(WHOLE[:5]), "zzz"])
    outputs = resume(hub, kept, structured=worker_pb2.Structured(choice=choice))
    assert tokens_of(outputs) == WHOLE[kept:5]
    assert outputs[-1].finish == worker_pb2.FINISH_COMPLETE


@pytest.mark.parametrize("kept", range(len(WHOLE)))
def test_a_prediction_is_counted_over_all_attempts(worker: Worker, hub: Hub, kept: int) -> None:
    outputs = resume(hub, kept, prediction_ids=WHOLE)
    assert tokens_of(outputs) == WHOLE[kept:]
    assert outputs[-1].stats.accepted_prediction_tokens == len(WHOLE)


def test_what_may_not_be_learnt_stays_so(worker: Worker, hub: Hub) -> None:
    outputs = resume(hub, 4, learn=False, namespace="secret")
    assert tokens_of(outputs) == WHOLE[4:]
    resume(hub, 2, learn=True, namespace="open")
    assert hub.next("learned").namespace == "open"
    learned = {one.name for one in worker.host.engine.namespaces() if one.num_tokens}
    assert learned == {"open"}


def test_penalties_and_banned_sequences_see_what_was_emitted(worker: Worker, hub: Hub) -> None:
    sampling = worker_pb2.SamplingParameters(
        top_p=1, repetition_penalty=1, bad_words=[worker_pb2.TokenIds(ids=WHOLE[2:4])]
    )
    whole = tokens_of(resume(hub, 0, sampling=sampling))
    assert whole[:3] == WHOLE[:3] and whole[3] != WHOLE[3]
    assert tokens_of(resume(hub, 3, sampling=sampling)) == whole[3:]


def test_the_older_attempt_of_the_same_worker_is_told_apart(worker: Worker, hub: Hub) -> None:
    hub.start("r", attempt=0, max_tokens=len(WHOLE))
    hub.start("r", attempt=1, max_tokens=len(WHOLE), emitted_token_ids=WHOLE[:2])
    by_attempt: dict[int, list[int]] = {0: [], 1: []}
    ended: list[int] = []
    while len(ended) < 2:
        for output in hub.next("step_output").outputs:
            by_attempt[output.attempt] += output.token_ids
            ended += [output.attempt] if output.finish else []
    assert by_attempt == {0: WHOLE, 1: WHOLE[2:]}
