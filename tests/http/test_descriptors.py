"""A router that has few file descriptors."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import pytest

from spectrie._proto import inference_pb2 as pb
from spectrie._proto.inference_pb2_grpc import InferenceStub
from tests.http.scripted_worker import MODEL, ScriptedWorker
from tests.http.server import router
from tests.waiting import wait_until

NUM_FILES = 128
NUM_IDLE = 400


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("prlimit") is None, reason="limits by prlimit"
)
def test_idle_connections_beyond_the_limit_of_files_shut_nobody_out(tmp_path: Path) -> None:
    """Twice as many idle connections as descriptors, on both addresses."""
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > NUM_IDLE + 100
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
            30.0,
            lambda: "no worker",
        )
        for index in range(NUM_IDLE):
            host, _, port = facts[("http", "grpc")[index % 2]].rpartition(":")
            idle.enter_context(socket.create_connection((host, int(port))))
        for _ in range(10):
            assert httpx.get(f"{url}/healthz", timeout=30).status_code == 200
            with grpc.insecure_channel(facts["grpc"]) as channel:
                request = pb.GenerateRequest(
                    text="hello", model=MODEL, stopping=pb.Stopping(max_tokens=8)
                )
                assert InferenceStub(channel).Generate(request, timeout=30).choices
    assert "could not accept" not in log.read_text()


def test_this_process_has_files_to_spare() -> None:
    assert len(os.listdir("/dev/fd")) < NUM_FILES
