"""The operators' client: corpora, namespaces, snapshots, totals and workers of a running server."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from spectrie._proto import admin_pb2 as pb
from spectrie._proto.admin_pb2_grpc import AdminStub
from spectrie.client.blocking import BlockingClient
from spectrie.client.reports import (
    CalibrationBin,
    CorpusReport,
    DrainReport,
    LoadReport,
    NamespaceReport,
    SnapshotReport,
    WorkerReport,
)
from spectrie.errors import PartialFailure, WorkerFailure
from spectrie.types import Source

__all__ = ["AdminClient"]

_Result = TypeVar("_Result")


class AdminClient(BlockingClient):
    """Operates a server's draft memory and its workers through its `--admin` address; safe to share
    between threads.

    Every call about memory asks all workers of the model. If some of them fail, the call raises
    `PartialFailure`, which names them and holds the result of the others.

    Example:
        >>> with AdminClient("unix:/run/spectrie/admin.sock") as admin:  # doctest: +SKIP
        ...     admin.add_corpus("our-code", readers=["team-a"])
    """

    def __init__(
        self,
        target: str,
        *,
        token: str | None = None,
        model: str | None = None,
        timeout: float | None = 60.0,
        connect_timeout: float = 5.0,
        tls: bool = False,
        root_certificates: bytes | None = None,
        private_key: bytes | None = None,
        certificate_chain: bytes | None = None,
    ) -> None:
        """Creates a client; it connects on first use.

        Args:
            target: `unix:PATH` or `HOST:PORT` of the server's `--admin` address.
            token: Secret of `--admin-token-file`; the environment variable SPECTRIE_ADMIN_TOKEN by
                default.
            model: The model whose workers to ask; the only served one by default.
            timeout: Seconds for a call; the error names workers that miss it.
            connect_timeout: Seconds for opening a connection.
            tls: Whether to use TLS; implied by each of the following.
            root_certificates: PEM of the authorities to trust.
            private_key: PEM of the key of `certificate_chain`.
            certificate_chain: PEM of the client's own certificate, for servers that ask for one.

        Raises:
            ConfigError: A setting is not allowed.
        """
        super().__init__(
            target,
            model=model,
            timeout=timeout,
            connect_timeout=connect_timeout,
            # A call without an answer may have taken effect: retrying is the caller's choice.
            max_retries=0,
            tls=tls,
            root_certificates=root_certificates,
            private_key=private_key,
            certificate_chain=certificate_chain,
        )
        token = token or os.environ.get("SPECTRIE_ADMIN_TOKEN") or None
        self._config = dataclasses.replace(self._config, api_key=token)

    def list_corpora(self) -> list[CorpusReport]:
        """The loaded corpora, by name."""
        reply: pb.ListCorporaResponse = self._ask("ListCorpora", pb.ListCorporaRequest())
        return _checked([_corpus(corpus) for corpus in reply.corpora], reply.failures)

    def add_corpus(self, corpus: str, *, readers: Sequence[str] | None = None) -> CorpusReport:
        """Adds a built corpus as a draft source, from the next step on.

        Args:
            corpus: Its name in the worker's cache, or the absolute path of its file there.
            readers: Namespaces that may draft from it; None for all.

        Raises:
            NotFound: The file does not exist.
            AlreadyExists: A corpus of this name is loaded.
            FailedPrecondition: The corpus is damaged or was built with another tokenizer.
        """
        request = pb.AddCorpusRequest(corpus=corpus)
        if readers is not None:
            request.readers.names.extend(readers)
            request.readers.SetInParent()
        reply: pb.AddCorpusResponse = self._ask("AddCorpus", request)
        return _checked(_corpus(reply.corpus), reply.failures)

    def remove_corpus(self, name: str) -> int:
        """Removes a corpus from drafting and keeps its file. Returns how many workers had it.

        The number is 0 for a corpus from before a restart that could not be opened since.

        Raises:
            NotFound: No corpus of this name is loaded; the message lists the loaded ones.
        """
        reply: pb.RemoveCorpusResponse = self._ask(
            "RemoveCorpus", pb.RemoveCorpusRequest(name=name)
        )
        return _checked(reply.workers, reply.failures)

    def list_namespaces(self) -> list[NamespaceReport]:
        """The namespaces that hold learned text, by name."""
        reply: pb.ListNamespacesResponse = self._ask("ListNamespaces", pb.ListNamespacesRequest())
        found = [_report(NamespaceReport, namespace) for namespace in reply.namespaces]
        return _checked(found, reply.failures)

    def forget_namespace(self, name: str) -> int:
        """Drops a namespace's text from memory and from snapshots on disk.

        Returns how many workers held text of it.

        Raises:
            NotFound: No worker holds its text; the message lists the existing namespaces.
        """
        reply: pb.ForgetNamespaceResponse = self._ask(
            "ForgetNamespace", pb.ForgetNamespaceRequest(name=name)
        )
        return _checked(reply.workers, reply.failures)

    def save_snapshot(self) -> list[SnapshotReport]:
        """Writes learned text to disk now.

        Raises:
            FailedPrecondition: The server runs without `--state-dir`.
        """
        reply: pb.SaveSnapshotResponse = self._ask("SaveSnapshot", pb.SaveSnapshotRequest())
        found = [_report(SnapshotReport, snapshot) for snapshot in reply.snapshots]
        return _checked(found, reply.failures)

    def stats(self) -> list[WorkerReport]:
        """Totals of each worker since its start."""
        reply: pb.GetStatsResponse = self._ask("GetStats", pb.GetStatsRequest())
        return [_worker(worker) for worker in reply.workers]

    def loads(self) -> list[LoadReport]:
        """The ready workers of the model, or of all models if none is set, and what each has to do."""
        reply: pb.LoadsResponse = self._ask("Loads", pb.LoadsRequest())
        return [_report(LoadReport, worker) for worker in reply.workers]

    def drain(self, worker: str, *, grace_s: float | None = None) -> DrainReport:
        """Takes a worker out of service and waits for its end.

        It gets no new requests and finishes those it runs. What still runs after the grace goes on
        at another worker, or at its successor. Raises no timeout before grace and timeout are over.

        Args:
            worker: Its name, as in `loads`, metrics and logs, or its process id.
            grace_s: Seconds that its requests may take; the worker's `--drain-timeout` by default.

        Raises:
            NotFound: There is none of this name; the message lists the others.
            DeadlineExceeded: It still drains, and will end by itself.
        """
        request = pb.DrainRequest(worker=worker)
        if grace_s is not None:
            request.grace_ms = round(grace_s * 1e3)
        timeout_s = self._config.timeout
        timeout_s = None if timeout_s is None else timeout_s + (grace_s or 0.0)
        attempts = self._attempts(timeout=timeout_s)
        reply: pb.DrainResponse = self._call("Drain", request, attempts)
        return _report(DrainReport, reply)

    def abort(self, request_id: str, *, tenant: str | None = None) -> int:
        """Ends a request: waiting, running, or cut off and kept to be resumed.

        Its client gets CANCELLED. Returns how many ended: one for each prompt.

        Args:
            request_id: Its name, or the `id` of its answer over HTTP.
            tenant: Whose request it is; any tenant's by default.

        Raises:
            NotFound: There is none.
            FailedPrecondition: Several tenants have one; the message lists them.
        """
        request = pb.AbortRequest(request_id=request_id, tenant=tenant)
        reply: pb.AbortResponse = self._call("Abort", request, self._attempts())
        return reply.requests

    def _ask(self, method: str, request: Any) -> Any:
        if self._config.model is not None:
            request.model = self._config.model
        return self._call(method, request, self._attempts())

    def _stub(self, target: str) -> Any:
        return AdminStub(self._connected(target))


def _checked(result: _Result, failures: Iterable[pb.WorkerFailure]) -> _Result:
    """`result`, if no worker failed."""
    failed = tuple(WorkerFailure(one.worker, one.code, one.message) for one in failures)
    if failed:
        raise PartialFailure(failed, result)
    return result


def _report(kind: Callable[..., _Result], message: Any, **converted: object) -> _Result:
    """A report of a message's values, but for the converted ones."""
    names = set(kind.__annotations__) - set(converted)
    return kind(**{name: getattr(message, name) for name in names}, **converted)


def _corpus(corpus: pb.Corpus) -> CorpusReport:
    readers = tuple(corpus.readers.names) if corpus.HasField("readers") else None
    first_loss = corpus.first_loss if corpus.HasField("first_loss") else None
    return _report(CorpusReport, corpus, readers=readers, first_loss=first_loss)


_NET_GAIN: Final = ("net_gain", "net_gain_low", "net_gain_high")
"""Fields that are absent until enough steps were held out."""


def _worker(stats: pb.WorkerStats) -> WorkerReport:
    sources = {int(source): source.label for source in Source}
    return _report(
        WorkerReport,
        stats,
        accepted_by_source={
            sources.get(total.source, Source.MODEL.label): total.tokens
            for total in stats.accepted_by_source
        },
        calibration=tuple(_report(CalibrationBin, one) for one in stats.calibration),
        dropped_by_reason={total.reason: total.tokens for total in stats.dropped_by_reason},
        **{name: getattr(stats, name) if stats.HasField(name) else None for name in _NET_GAIN},
    )
