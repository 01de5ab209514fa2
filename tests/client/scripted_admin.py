"""An operators' server on a real socket that holds corpora and namespaces by name."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from spectrie._proto import admin_pb2 as pb
from spectrie._proto import admin_pb2_grpc as services
from spectrie._proto import inference_pb2

__all__ = ["AdminServer", "admin_server"]


@dataclass
class AdminServer(services.AdminServicer):
    """Answers like a server with two workers; those in `failing` fail each call.

    Attributes:
        target: Its address.
        failing: Messages of workers that fail, by name.
        corpora: The loaded corpora.
        namespaces: The namespaces that hold text.
        metadata: The metadata of every call.
        workers: The workers that are ready.
        drained: Each drain that was asked for.
        successors: Names of workers that will come, one for each that drains.
        requests: Running requests, as tenant and id.
    """

    target: str = ""
    failing: dict[str, str] = field(default_factory=dict)
    corpora: dict[str, pb.Corpus] = field(default_factory=dict)
    namespaces: list[str] = field(default_factory=lambda: ["ann", "default"])
    metadata: list[dict[str, str]] = field(default_factory=list)
    workers: list[str] = field(default_factory=lambda: ["w1", "w2"])
    drained: list[pb.DrainRequest] = field(default_factory=list)
    successors: list[str] = field(default_factory=lambda: ["w3", "w4"])
    requests: list[tuple[str, str]] = field(default_factory=list)

    def _failures(self, context: Any) -> list[pb.WorkerFailure]:
        self.metadata.append(dict(context.invocation_metadata()))
        return [
            pb.WorkerFailure(worker=worker, code=4, message=message)
            for worker, message in self.failing.items()
        ]

    def ListCorpora(self, request: Any, context: Any) -> Any:
        """Lists them."""
        failures = self._failures(context)
        return pb.ListCorporaResponse(corpora=self.corpora.values(), failures=failures)

    def AddCorpus(self, request: Any, context: Any) -> Any:
        """Adds one of any name, once."""
        failures = self._failures(context)
        if request.corpus in self.corpora:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"corpus {request.corpus} is loaded")
        corpus = pb.Corpus(name=request.corpus, num_tokens=1234, bytes=5_000_000, workers=2)
        if request.HasField("readers"):
            corpus.readers.CopyFrom(request.readers)
        self.corpora[request.corpus] = corpus
        return pb.AddCorpusResponse(corpus=corpus, failures=failures)

    def RemoveCorpus(self, request: Any, context: Any) -> Any:
        """Removes one that is there."""
        failures = self._failures(context)
        if self.corpora.pop(request.name, None) is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no corpus {request.name}")
        return pb.RemoveCorpusResponse(workers=2, failures=failures)

    def ListNamespaces(self, request: Any, context: Any) -> Any:
        """Lists them."""
        failures = self._failures(context)
        found = [pb.NamespaceInfo(name=name, num_tokens=7, workers=2) for name in self.namespaces]
        return pb.ListNamespacesResponse(namespaces=found, failures=failures)

    def ForgetNamespace(self, request: Any, context: Any) -> Any:
        """Forgets one that is there."""
        failures = self._failures(context)
        if request.name not in self.namespaces:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no namespace {request.name}")
        self.namespaces.remove(request.name)
        return pb.ForgetNamespaceResponse(workers=2, failures=failures)

    def SaveSnapshot(self, request: Any, context: Any) -> Any:
        """Says that one worker wrote."""
        failures = self._failures(context)
        snapshot = pb.Snapshot(worker="w1", folder="/state/draft/0", num_namespaces=2, num_tokens=9)
        return pb.SaveSnapshotResponse(snapshots=[snapshot], failures=failures)

    def GetStats(self, request: Any, context: Any) -> Any:
        """Totals of one worker that drafted and one that did not."""
        self._failures(context)
        source = inference_pb2.SOURCE_SHARED
        busy = pb.WorkerStats(
            worker="w1",
            steps=10,
            drafted_tokens=40,
            accepted_tokens=8,
            accepted_by_source=[pb.SourceTotal(source=source, tokens=8)],
            calibration=[pb.CalibrationBin(trials=20, expected=4.0, accepted=3)],
            net_gain=1.25,
            net_gain_low=1.125,
            net_gain_high=1.375,
            holdout_steps=40,
            recycling=True,
            dropped_by_reason=[
                pb.DroppedTotal(reason="share", tokens=1200),
                pb.DroppedTotal(reason="no_room", tokens=3),
            ],
            lost_corpus_blocks=2,
        )
        return pb.GetStatsResponse(workers=[busy, pb.WorkerStats(worker="w2")])

    def Loads(self, request: Any, context: Any) -> Any:
        """Those that are ready; a successor is there from the second look on."""
        workers = [
            pb.WorkerLoad(
                worker=name, process_id=7, model="tiny", choices=3, max_running=64, waiting=1
            )
            for name in self.workers
        ]
        if self.successors and len(self.workers) < 2:
            self.workers.append(self.successors.pop(0))
        return pb.LoadsResponse(workers=workers)

    def Drain(self, request: Any, context: Any) -> Any:
        """Drains one that is there."""
        self.drained.append(request)
        if request.worker not in self.workers:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no worker {request.worker}")
        self.workers.remove(request.worker)
        return pb.DrainResponse(worker=request.worker, handed_over=2)

    def Abort(self, request: Any, context: Any) -> Any:
        """Ends those of an id, and of a tenant if one is named."""
        self.metadata.append(dict(context.invocation_metadata()))
        tenant = request.tenant if request.HasField("tenant") else None
        ended = [
            one
            for one in self.requests
            if one[1] == request.request_id and tenant in (None, one[0])
        ]
        if not ended:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no request {request.request_id}")
        self.requests = [one for one in self.requests if one not in ended]
        return pb.AbortResponse(requests=len(ended))


@pytest.fixture
def admin_server() -> Iterator[AdminServer]:
    """A server on a free loopback port."""
    server = AdminServer()
    runner = grpc.server(ThreadPoolExecutor(2))
    services.add_AdminServicer_to_server(server, runner)
    server.target = f"127.0.0.1:{runner.add_insecure_port('127.0.0.1:0')}"
    runner.start()
    yield server
    runner.stop(None).wait()
