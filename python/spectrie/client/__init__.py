"""Clients of a Spectrie server over gRPC."""

from spectrie.client.admin import AdminClient
from spectrie.client.aio import AsyncClient
from spectrie.client.reports import (
    CalibrationBin,
    CorpusReport,
    DrainReport,
    LoadReport,
    NamespaceReport,
    SnapshotReport,
    WorkerReport,
)
from spectrie.client.stream import AsyncGenerationStream, GenerationStream
from spectrie.client.sync import Client

__all__ = [
    "AdminClient",
    "AsyncClient",
    "AsyncGenerationStream",
    "CalibrationBin",
    "Client",
    "CorpusReport",
    "DrainReport",
    "GenerationStream",
    "LoadReport",
    "NamespaceReport",
    "SnapshotReport",
    "WorkerReport",
]
