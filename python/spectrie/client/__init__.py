"""Clients of a Spectrie server over gRPC."""

from spectrie.client.aio import AsyncClient
from spectrie.client.stream import AsyncGenerationStream, GenerationStream
from spectrie.client.sync import Client

__all__ = ["AsyncClient", "AsyncGenerationStream", "Client", "GenerationStream"]
