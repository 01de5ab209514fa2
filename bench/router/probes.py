"""How soon health answers beside floods of frames, half bodies and idle connections, none of them with a key."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from bench.router.floods import FLOODS, OPENING
from bench.router.process import router
from bench.router.rows import Row, most
from bench.support import machine

__all__ = ["measure"]

PROBES, PAUSE_S = 100, 0.02
FEW_FILES, NUM_IDLE = 256, 10_000
CONNECTIONS = 8


def measure(folder: Path) -> tuple[list[Row], dict[str, Any]]:
    """Rows of the table, and milliseconds of every probe.

    Args:
        folder: Not used: no worker takes part.
    """
    found = {name: _beside(name) for name in (*FLOODS, "idle")}
    rows = []
    for name, probed in found.items():
        beside = f"{NUM_IDLE:,} idle connections, {FEW_FILES} files" if name == "idle" else name
        for way, millis in probed.items():
            worst = sorted(millis)[int(len(millis) * 0.99)]
            rows.append(most(f"{way} health beside {beside}: p99", worst, 100, 100, "ms"))
    return rows, found


def _beside(name: str) -> dict[str, list[float]]:
    """Milliseconds of each probe by HTTP and by gRPC."""
    before = ("prlimit", f"--nofile={FEW_FILES}") if name == "idle" else ()
    with (
        tempfile.TemporaryDirectory(prefix="spectrie-bench-") as own,
        router(Path(own), before=before) as process,
    ):
        command = ["nice", "-n", "19", sys.executable, "-m", "bench.router.probes", name]
        if name == "idle":
            command = ["prlimit", f"--nofile={NUM_IDLE + 200}", *command]
        command += [str(process.facts["grpc"])]
        flood = subprocess.Popen(command, cwd=machine.ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert flood.stdout is not None
            if flood.stdout.readline() != "floods\n":
                raise RuntimeError(f"the flood {name} did not begin")
            probed: dict[str, list[float]] = {way: [] for way in _PROBES}
            for _ in range(PROBES):
                for way, probe in _PROBES.items():
                    time.sleep(PAUSE_S)
                    begun = time.perf_counter()
                    probe(str(process.facts[way.lower()]))
                    probed[way].append(1000 * (time.perf_counter() - begun))
            return probed
        finally:
            flood.kill()
            flood.wait()
            flood.stdout and flood.stdout.close()


def _probe_http(address: str) -> None:
    """Asks on a new connection, as kubelet does."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"health says {answer.status}")
    finally:
        connection.close()


def _probe_grpc(address: str) -> None:
    """Asks on a new connection, as kubelet does."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(address, options=own) as channel:
        answer = HealthStub(channel).Check(HealthCheckRequest(), timeout=30)
    if answer.status != HealthCheckResponse.SERVING:
        raise RuntimeError(f"health says {answer.status}")


_PROBES = {"HTTP": _probe_http, "gRPC": _probe_grpc}


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.settimeout(0.5)
    return connection


def _flood(name: str, address: str) -> None:
    """Sends for ever over several connections in turn, each begun again where the server ends it."""
    flooding = [_rounds(FLOODS[name], address) for _ in range(CONNECTIONS)]
    print("floods", flush=True)
    while True:
        for one in flooding:
            next(one)


def _rounds(one: Callable[[int], bytes], address: str) -> Any:
    while True:
        connection = _connect(address)
        try:
            connection.sendall(OPENING)
            for first in range(0, 1 << 29, 64):
                connection.sendall(b"".join(one(first + number) for number in range(64)))
                yield
        except OSError:
            yield
        finally:
            connection.close()


def _idle(address: str) -> None:
    held = []
    for _ in range(NUM_IDLE):
        try:
            held.append(_connect(address))
        except OSError:
            continue
    print("floods", flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    if sys.argv[1] == "idle":
        _idle(sys.argv[2])
    _flood(sys.argv[1], sys.argv[2])
