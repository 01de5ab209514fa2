"""Answers a router's admin requests about draft memory, off the step loop's thread."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from spectrie._proto import worker_pb2
from spectrie.errors import ConfigError
from spectrie.worker.messages import message_of

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["AdminDesk"]

log = logging.getLogger("spectrie.worker")

# Numbers of gRPC status codes.
_NOT_FOUND = 5
_ALREADY_EXISTS = 6
_FAILED_PRECONDITION = 9
_UNIMPLEMENTED = 12
_INTERNAL = 13


class ManagesMemory(Protocol):
    """The part of an engine that admin requests use."""

    def add_corpus(self, path: str, readers: list[str] | None = None) -> _core.CorpusInfo:
        """Opens a corpus."""

    def remove_corpus(self, name: str) -> None:
        """Removes a corpus."""

    def corpora(self) -> Sequence[_core.CorpusInfo]:
        """Returns the open corpora."""

    def namespaces(self) -> Sequence[_core.NamespaceInfo]:
        """Returns the namespaces that hold text."""

    def forget(self, namespace: str) -> bool:
        """Deletes a namespace's text, also from its snapshot."""

    def save(self, folder: str, fingerprint: str) -> _core.SnapshotInfo:
        """Writes a snapshot of all namespaces to a folder."""


class _Refusal(Exception):
    """An admin request that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class AdminDesk:
    """Answers admin requests in order, on its own thread: a large corpus takes seconds.

    Args:
        engine: The engine with the draft memory.
        state_folder: Folder of its snapshots; None if nothing is kept on disk.
        fingerprint: Fingerprint stored in snapshots, and checked when they are restored.
    """

    def __init__(self, engine: ManagesMemory, state_folder: Path | None, fingerprint: str) -> None:
        self._engine = engine
        self._state_folder = state_folder
        self._fingerprint = fingerprint
        self._calls: queue.SimpleQueue[
            tuple[worker_pb2.AdminCall, Callable[[worker_pb2.AdminReply], None]]
        ] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="spectrie-admin", daemon=True).start()

    def ask(
        self, call: worker_pb2.AdminCall, reply: Callable[[worker_pb2.AdminReply], None]
    ) -> None:
        """Queues an admin request; `reply` receives the answer, on the desk's thread."""
        self._calls.put((call, reply))

    def answer(self, call: worker_pb2.AdminCall) -> worker_pb2.AdminReply:
        """Returns the answer to an admin request; errors are part of it."""
        kind = call.WhichOneof("call")
        handler = self._HANDLERS.get(kind or "")
        reply = worker_pb2.AdminReply(call_id=call.call_id)
        try:
            if handler is None or kind is None:
                raise _Refusal(_UNIMPLEMENTED, "this worker does not support the call: upgrade it")
            handler(self, getattr(call, kind), reply)
        except _Refusal as refusal:
            reply.error.CopyFrom(worker_pb2.AdminError(code=refusal.code, message=str(refusal)))
        except Exception:
            log.exception("the call %s failed", kind)
            message = "the call failed inside the worker, whose log has the details"
            reply.error.CopyFrom(worker_pb2.AdminError(code=_INTERNAL, message=message))
        return reply

    def _run(self) -> None:
        while True:
            call, reply = self._calls.get()
            reply(self.answer(call))

    def _list_corpora(self, _call: Any, reply: worker_pb2.AdminReply) -> None:
        corpora = [_corpus_message(info) for info in self._engine.corpora()]
        reply.corpora.CopyFrom(worker_pb2.CorpusList(corpora=corpora))

    def _add_corpus(self, call: worker_pb2.AddCorpus, reply: worker_pb2.AdminReply) -> None:
        from spectrie import _core
        from spectrie.model.files.corpora import find_corpus

        try:
            path = str(find_corpus(call.corpus))
        except ConfigError as error:
            raise _Refusal(_NOT_FOUND, str(error)) from error
        readers = list(call.readers.namespaces) if call.HasField("readers") else None
        try:
            info = self._engine.add_corpus(path, readers)
        except _core.EngineError as error:
            code = _ALREADY_EXISTS if self._is_loaded(path) else _FAILED_PRECONDITION
            raise _Refusal(code, str(error)) from error
        log.info("corpus %s added: %d tokens", info.name, info.num_tokens)
        reply.corpus.CopyFrom(_corpus_message(info))

    def _is_loaded(self, path: str) -> bool:
        """Returns whether a corpus with the name stored in a file is open."""
        from spectrie import _core

        try:
            name = _core.corpus_info(path).name
        except ValueError:
            return False
        return any(info.name == name for info in self._engine.corpora())

    def _remove_corpus(self, call: worker_pb2.RemoveCorpus, reply: worker_pb2.AdminReply) -> None:
        names = [info.name for info in self._engine.corpora()]
        if call.name not in names:
            raise _Refusal(_NOT_FOUND, f"no corpus {call.name!r} is loaded; {_listed(names)}")
        self._engine.remove_corpus(call.name)
        log.info("corpus %s removed", call.name)
        reply.done.SetInParent()

    def _list_namespaces(self, _call: Any, reply: worker_pb2.AdminReply) -> None:
        namespaces = [
            message_of(worker_pb2.NamespaceInfo, info) for info in self._engine.namespaces()
        ]
        reply.namespaces.CopyFrom(worker_pb2.NamespaceList(namespaces=namespaces))

    def _forget_namespace(
        self, call: worker_pb2.ForgetNamespace, reply: worker_pb2.AdminReply
    ) -> None:
        from spectrie import _core

        try:
            was_known = self._engine.forget(call.name)
        except _core.EngineError as error:
            remedy = "it is forgotten until a restart: mend that and forget it again"
            raise _Refusal(_INTERNAL, f"{error}; {remedy}") from error
        if not was_known:
            unknown = f"no namespace {call.name!r}"
            if not self._calls.empty():
                # A worker that joins is asked for thousands at once: nobody reads what there is instead,
                # and to count it takes longest of all.
                raise _Refusal(_NOT_FOUND, unknown)
            names = [info.name for info in self._engine.namespaces()]
            raise _Refusal(_NOT_FOUND, f"{unknown}; {_listed(names)}")
        log.info("namespace %s forgotten", call.name)
        reply.done.SetInParent()

    def _save_snapshot(self, _call: Any, reply: worker_pb2.AdminReply) -> None:
        from spectrie import _core

        try:
            info = self._save()
        except _core.EngineError as error:
            raise _Refusal(_INTERNAL, str(error)) from error
        reply.snapshot.CopyFrom(
            message_of(worker_pb2.SnapshotInfo, info, folder=str(self._state_folder))
        )

    def _save(self) -> _core.SnapshotInfo:
        if self._state_folder is None:
            message = "nothing is kept on disk: start the server with --state-dir DIR"
            raise _Refusal(_FAILED_PRECONDITION, message)
        return self._engine.save(str(self._state_folder), self._fingerprint)

    _HANDLERS: ClassVar[dict[str, Callable[[AdminDesk, Any, worker_pb2.AdminReply], None]]] = {
        "list_corpora": _list_corpora,
        "add_corpus": _add_corpus,
        "remove_corpus": _remove_corpus,
        "list_namespaces": _list_namespaces,
        "forget_namespace": _forget_namespace,
        "save_snapshot": _save_snapshot,
    }


def _corpus_message(info: _core.CorpusInfo) -> worker_pb2.CorpusInfo:
    message = message_of(worker_pb2.CorpusInfo, info, readers=None)
    if info.readers is not None:
        message.readers.namespaces.extend(info.readers)
        message.readers.SetInParent()
    return message


def _listed(names: Sequence[str]) -> str:
    return f"there are: {', '.join(sorted(names))}" if names else "there is none"
