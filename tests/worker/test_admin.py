"""A router's questions about draft memory, asked of a worker's desk over a real engine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spectrie import _core
from spectrie._proto import worker_pb2
from spectrie.worker.admin import AdminDesk

OURS = "0123456789abcdef"
THEIRS = "fedcba9876543210"
OK, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL = 0, 5, 6, 9, 12, 13
Ask = Callable[..., worker_pb2.AdminReply]


def engine() -> _core.Engine:
    return _core.Engine(
        {
            "vocabulary_size": 64,
            "eos_token_ids": [63],
            "num_pages": 16,
            "max_context": 128,
            "max_running": 4,
            "tokenizer_fingerprint": OURS,
        }
    )


def corpus(folder: Path, name: str, fingerprint: str = OURS) -> str:
    builder = _core.CorpusBuilder(name, fingerprint)
    builder.push([1, 2, 3, 4])
    path = folder / f"{name}.corpus"
    builder.finish(path)
    return str(path)


def asking(desk: AdminDesk) -> Ask:
    def ask(**call: Any) -> worker_pb2.AdminReply:
        answers: queue.SimpleQueue[worker_pb2.AdminReply] = queue.SimpleQueue()
        desk.ask(worker_pb2.AdminCall(call_id=9, **call), answers.put)
        answer = answers.get(timeout=60)
        assert answer.call_id == 9
        return answer

    return ask


@pytest.fixture
def ask() -> Ask:
    return asking(AdminDesk(engine(), None, OURS))


def test_corpus_is_added_listed_with_its_readers_and_removed(ask: Ask, tmp_path: Path) -> None:
    path = corpus(tmp_path, "code")
    readers = worker_pb2.Readers(namespaces=["ann"])
    added = ask(add_corpus=worker_pb2.AddCorpus(corpus=path, readers=readers)).corpus
    assert (added.name, added.num_tokens, added.num_documents) == ("code", 4, 1)
    ask(add_corpus=worker_pb2.AddCorpus(corpus=corpus(tmp_path, "text")))
    listed = {one.name: one for one in ask(list_corpora=worker_pb2.ListCorpora()).corpora.corpora}
    assert list(listed["code"].readers.namespaces) == ["ann"]
    assert not listed["text"].HasField("readers")
    assert ask(remove_corpus=worker_pb2.RemoveCorpus(name="code")).WhichOneof("reply") == "done"
    missing = ask(remove_corpus=worker_pb2.RemoveCorpus(name="code")).error
    assert missing.code == NOT_FOUND
    assert "text" in missing.message


def test_corpus_that_cannot_be_used_is_refused_with_its_kind(ask: Ask, tmp_path: Path) -> None:
    def refusal(path: str) -> worker_pb2.AdminError:
        return ask(add_corpus=worker_pb2.AddCorpus(corpus=path)).error

    assert refusal(str(tmp_path / "none.corpus")).code == NOT_FOUND
    foreign = refusal(corpus(tmp_path, "foreign", THEIRS))
    assert foreign.code == FAILED_PRECONDITION
    assert OURS in foreign.message and THEIRS in foreign.message
    damaged = tmp_path / "damaged.corpus"
    damaged.write_bytes(Path(corpus(tmp_path, "code")).read_bytes()[:-5])
    assert refusal(str(damaged)).code == FAILED_PRECONDITION
    path = corpus(tmp_path, "code")
    assert refusal(path).code == OK
    assert refusal(path).code == ALREADY_EXISTS


def test_namespace_is_listed_until_it_is_forgotten() -> None:
    memory = engine()
    memory.learn("ann", list(range(40)))
    ask = asking(AdminDesk(memory, None, OURS))
    (found,) = ask(list_namespaces=worker_pb2.ListNamespaces()).namespaces.namespaces
    assert found.name == "ann"
    assert found.num_tokens >= 40
    forget = worker_pb2.ForgetNamespace(name="ann")
    assert ask(forget_namespace=forget).WhichOneof("reply") == "done"
    assert not ask(list_namespaces=worker_pb2.ListNamespaces()).namespaces.namespaces
    assert ask(forget_namespace=forget).error.code == NOT_FOUND


def test_namespace_that_cannot_be_erased_from_disk_is_an_error_until_it_is(tmp_path: Path) -> None:
    state = tmp_path / "state"
    memory = engine()
    memory.learn("ann", list(range(40)))
    memory.save(str(state), OURS)
    away = state.rename(tmp_path / "away")
    state.write_text("")
    ask = asking(AdminDesk(memory, None, OURS))
    forget = worker_pb2.ForgetNamespace(name="ann")
    error = ask(forget_namespace=forget).error
    assert error.code == INTERNAL
    assert str(state) in error.message and "forget it again" in error.message
    state.unlink()
    away.rename(state)
    assert ask(forget_namespace=forget).WhichOneof("reply") == "done"
    assert ask(forget_namespace=forget).error.code == NOT_FOUND


class BrokenEngine:
    """An engine whose disk is full, without other functions."""

    def save(self, folder: str, fingerprint: str) -> Any:
        raise _core.EngineError("no space left")


def test_snapshot_is_written_where_there_is_a_folder(tmp_path: Path) -> None:
    memory = engine()
    memory.learn("ann", list(range(40)))
    save = worker_pb2.SaveSnapshot()
    ask = asking(AdminDesk(memory, tmp_path, OURS))
    snapshot = ask(save_snapshot=save).snapshot
    assert (snapshot.folder, snapshot.num_namespaces) == (str(tmp_path), 1)
    assert snapshot.num_tokens >= 40
    assert snapshot.written_bytes == snapshot.bytes > 160

    def written() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert len(written()) == snapshot.bytes
    assert b"ann" in written()
    assert ask(save_snapshot=save).snapshot.written_bytes == 0
    ask(forget_namespace=worker_pb2.ForgetNamespace(name="ann"))
    assert b"ann" not in written()


def test_snapshot_that_cannot_be_written_is_refused_with_the_cause(tmp_path: Path) -> None:
    save = worker_pb2.SaveSnapshot()
    error = asking(AdminDesk(engine(), None, OURS))(save_snapshot=save).error
    assert error.code == FAILED_PRECONDITION
    assert "--state-dir" in error.message
    memory: Any = BrokenEngine()
    error = asking(AdminDesk(memory, tmp_path, OURS))(save_snapshot=save).error
    assert (error.code, error.message) == (INTERNAL, "no space left")


def test_unknown_call_and_a_bug_are_answered_too(
    ask: Ask,
) -> None:
    assert ask().error.code == UNIMPLEMENTED
    memory: Any = BrokenEngine()
    error = asking(AdminDesk(memory, None, OURS))(list_corpora=worker_pb2.ListCorpora()).error
    assert error.code == INTERNAL
    assert "AttributeError" not in error.message


class Crowded:
    """An engine that answers once it may, and counts how often its namespaces are listed."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.lists = 0

    def forget(self, _namespace: str) -> bool:
        assert self.may_answer.wait(60)
        return False

    def namespaces(self) -> list[_core.NamespaceInfo]:
        self.lists += 1
        return []


def test_thousands_of_forgotten_names_are_answered_without_a_list_for_each() -> None:
    crowded: Any = Crowded()
    desk = AdminDesk(crowded, None, OURS)
    answers: queue.SimpleQueue[worker_pb2.AdminReply] = queue.SimpleQueue()
    for number in range(2_000):
        forget = worker_pb2.ForgetNamespace(name=f"n{number}")
        desk.ask(worker_pb2.AdminCall(call_id=number, forget_namespace=forget), answers.put)
    crowded.may_answer.set()
    errors = [answers.get(timeout=60).error for _ in range(2_000)]
    assert {error.code for error in errors} == {NOT_FOUND}
    assert (errors[0].message, crowded.lists) == ("no namespace 'n0'", 1)
    assert errors[-1].message == "no namespace 'n1999'; there is none"
