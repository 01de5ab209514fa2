"""The options of a worker process."""

from __future__ import annotations

from dataclasses import dataclass, field

from spectrie.engine.options import EngineOptions

__all__ = ["LinkOptions", "WorkerOptions"]


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How a worker reaches its router.

    Attributes:
        target: `unix:PATH` or `HOST:PORT` of the router's worker listener.
        token: Secret of a TCP listener; None for a Unix socket.
        tls_ca: File with the authority of the router's certificate: dialling is by TLS.
        tls_cert: File with the worker's own certificate.
        tls_key: File with the key of `tls_cert`.
        model_name: Name of the model for clients; None is the model's own name.
        backoff_s: First pause after a failed dial; doubles up to `max_backoff_s`.
        max_backoff_s: Longest pause between two dials.
    """

    target: str
    token: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    model_name: str | None = None
    backoff_s: float = 0.5
    max_backoff_s: float = 30.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Everything a worker process needs.

    Attributes:
        model: Folder, `.gguf` file, alias or Hugging Face id.
        link: Address of its router, and pauses between dials.
        engine: How the model is loaded, requests are scheduled and drafts are grown.
        health_address: Address that serves grpc.health; None serves none.
        drain_s: Seconds a drain waits for running requests.
        stall_timeout_s: Seconds without a step, with work pending, after which it is not healthy.
    """

    model: str
    link: LinkOptions
    engine: EngineOptions = field(default_factory=EngineOptions)
    health_address: str | None = None
    drain_s: float = 600.0
    stall_timeout_s: float = 10.0
