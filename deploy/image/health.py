"""The health command of the images: exit code 0 if what runs in the container serves.

A server or router answers at the port of `SPECTRIE_METRICS_LISTEN`, a worker by gRPC at that of `SPECTRIE_HEALTH`.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

__all__ = ["is_router_ready", "is_worker_healthy"]

_PATIENCE_S = 2.0


def _local(variable: str) -> str:
    return f"127.0.0.1:{os.environ[variable].rpartition(':')[2]}"


def is_router_ready(address: str) -> bool | None:
    """Whether a router at `HOST:PORT` has a worker and is not draining; None if none runs there.

    One that takes the connection and does not answer is not ready: a worker beside it says nothing of it.
    """
    # A proxy of the environment has no way to the container's own addresses.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/readyz", timeout=_PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except OSError as error:
        return None if _is_refused(error) else False


def _is_refused(error: OSError) -> bool:
    return isinstance(getattr(error, "reason", error), ConnectionRefusedError)


def is_worker_healthy(address: str) -> bool:
    """Whether a worker at `HOST:PORT` has loaded its model and goes on."""
    try:
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc
    except ImportError:  # an image of a router alone
        return False
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_PATIENCE_S)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def main() -> int:
    """Returns the exit code."""
    ready = is_router_ready(_local("SPECTRIE_METRICS_LISTEN"))
    if ready is None:
        ready = is_worker_healthy(_local("SPECTRIE_HEALTH"))
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
