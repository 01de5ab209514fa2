"""Asks a probe over the network, as a kubelet does: at the pod's address, in clear."""

from __future__ import annotations

import http.client

import grpc

from tools.kube.node.pods import Probe

__all__ = ["ask"]

_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
"""A HealthCheckResponse whose only field, the status, is SERVING."""


def ask(address: str, probe: Probe) -> bool:
    """Whether the answer is a success: a status of 200 to 399, or SERVING.

    Args:
        address: Of the pod.
        probe: What to ask.
    """
    return _grpc(address, probe) if probe.way == "grpc" else _http(address, probe)


def _http(address: str, probe: Probe) -> bool:
    connection = http.client.HTTPConnection(address, probe.port, timeout=probe.timeout_s)
    try:
        connection.request("GET", probe.path)
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _grpc(address: str, probe: Probe) -> bool:
    # A kubelet asks its pods itself, whatever proxy its machine has.
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"{address}:{probe.port}", options) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_CHECK)
        try:
            return check(b"", timeout=probe.timeout_s) == _SERVING
        except grpc.RpcError:
            return False
