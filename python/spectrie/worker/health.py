"""Serves grpc.health of one worker, for probes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from spectrie.errors import ConfigError

__all__ = ["HealthServer"]

SERVICES = ("", "spectrie.worker.v1.Worker")


class HealthServer:
    """Serves grpc.health: SERVING once the model is warm, with or without a router connection.

    Args:
        address: `HOST:PORT` (port 0 picks a free one) or `unix:PATH`.

    Raises:
        ConfigError: The address cannot be bound, or grpcio-health-checking is not installed.
    """

    def __init__(self, address: str) -> None:
        try:
            from grpc_health.v1 import health, health_pb2_grpc
        except ImportError as error:
            raise ConfigError(
                "--health requires grpcio-health-checking: pip install 'spectrie[cpu]'"
            ) from error
        self._servicer: Any = health.HealthServicer()
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=2, thread_name_prefix="spectrie-health"),
            options=[
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.http2.max_ping_strikes", 0),
                ("grpc.so_reuseport", 0),
            ],
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        self._set(serving=False)
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigError(f"--health {address}: the address cannot be bound") from error
        host = address if address.startswith("unix:") else address.rpartition(":")[0]
        self.address = host if address.startswith("unix:") else f"{host}:{port}"
        """The address it listens on, with the port in use."""
        self._server.start()

    def set_serving(self, serving: bool) -> None:
        """Sets whether the model is warm."""
        self._set(serving=serving)

    def close(self) -> None:
        """Stops serving."""
        self._servicer.enter_graceful_shutdown()
        self._server.stop(grace=0.5).wait()

    def _set(self, *, serving: bool) -> None:
        from grpc_health.v1 import health_pb2

        status = (
            health_pb2.HealthCheckResponse.SERVING
            if serving
            else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        for service in SERVICES:
            self._servicer.set(service, status)
