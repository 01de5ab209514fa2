"""A router that has few file descriptors."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import pytest

from spectrie._proto import inference_pb2 as pb
from spectrie._proto.inference_pb2_grpc import InferenceStub
from tests.http.memory import memory_bytes
from tests.http.scripted_worker import MODEL, ScriptedWorker
from tests.http.server import router
from tests.waiting import wait_until

NUM_FILES, MOST_IDLE, LEAST_IDLE = 256, 10_000, 1_000
NUM_PROBES = 20
MAX_GROWTH = 64 << 20
"""Bytes that the router may take for all of them."""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("prlimit") is None, reason="limits by prlimit"
)


@pytest.fixture
def num_idle() -> Iterator[int]:
    """Idle connections for whose one end this process has files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_limited = hard != resource.RLIM_INFINITY
    idle = min(MOST_IDLE, hard - 200) if is_limited else MOST_IDLE
    if idle < LEAST_IDLE:
        pytest.skip(f"this process may have {hard} open files, and needs {LEAST_IDLE + 200}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, idle + 200), hard))
    yield idle // NUM_PROBES * NUM_PROBES
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_idle_connections_shut_nobody_out(tmp_path: Path, num_idle: int) -> None:
    """Forty times as many as descriptors, over both addresses; fewer where this process may not have them."""
    limited = ("prlimit", f"--nofile={NUM_FILES}")
    log = tmp_path / "log"
    with (
        router(tmp_path, before=limited, log=log) as facts,
        ScriptedWorker(facts["worker"]),
        ExitStack() as idle,
    ):
        url = f"http://{facts['http']}"
        wait_until(
            lambda: httpx.get(f"{url}/readyz", timeout=30).status_code == 200,
            60.0,
            lambda: "no worker",
        )
        before = memory_bytes(int(facts["pid"]))
        answers = 0
        for index in range(num_idle):
            host, _, port = facts[("http", "grpc")[index % 2]].rpartition(":")
            idle.enter_context(socket.create_connection((host, int(port)), timeout=30))
            if index % (num_idle // NUM_PROBES) == 0:
                answers += httpx.get(f"{url}/healthz", timeout=30).status_code == 200
        assert answers == NUM_PROBES
        for _ in range(10):
            assert httpx.get(f"{url}/healthz", timeout=30).status_code == 200
            with grpc.insecure_channel(facts["grpc"]) as channel:
                request = pb.GenerateRequest(
                    text="hello", model=MODEL, stopping=pb.Stopping(max_tokens=8)
                )
                assert InferenceStub(channel).Generate(request, timeout=30).choices
        assert memory_bytes(int(facts["pid"]), "VmHWM") - before < MAX_GROWTH
    assert "could not accept" not in log.read_text()


def test_this_process_has_files_to_spare() -> None:
    assert len(os.listdir("/dev/fd")) < NUM_FILES
