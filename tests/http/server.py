"""Fixtures: the router as a process on free ports, joined by a scripted worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
import pytest

from tests.http.scripted_worker import ScriptedWorker
from tests.waiting import wait_until

__all__ = ["Server", "client", "router", "scripted", "serving", "url"]

READY_S = 60.0
ROOT = Path(__file__).parents[2]
READY_PREFIX = "spectrie ready "


@dataclass(frozen=True, slots=True)
class Server:
    """A running router and the worker that joined it."""

    http: str
    grpc: str
    worker: ScriptedWorker
    metrics: str | None = None


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A router without API keys, and a worker that follows a script."""
    with serving(tmp_path_factory.mktemp("router")) as server:
        yield server


@pytest.fixture(scope="module")
def url(scripted: Server) -> str:
    """Base URL of the HTTP API."""
    return scripted.http


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    """OpenAI's client, without retries so that each error is seen."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        yield client


@contextmanager
def serving(folder: Path, *options: str, log: Path | None = None) -> Iterator[Server]:
    """A router with `options` and a scripted worker, ready; its stderr goes to `log`."""
    with router(folder, *options, log=log) as facts, ScriptedWorker(facts["worker"]) as worker:
        url = f"http://{facts['http']}"
        _wait_until_ready(f"{url}/readyz")
        yield Server(url, facts["grpc"], worker, facts.get("metrics"))


@contextmanager
def router(
    folder: Path, *options: str, before: Sequence[str] = (), log: Path | None = None
) -> Iterator[dict[str, str]]:
    """Runs `spectrie router` with `options`; gives the addresses of its ready line, and its `pid`.

    Args:
        folder: For its sockets, and its working directory.
        options: Beside those that pick free addresses.
        before: The command that runs it, such as `prlimit`.
        log: File for its stderr.
    """
    command = [*before, sys.executable, "-m", "spectrie", "router"]
    command += ["--worker-listen", f"unix:{folder}/worker.sock"]
    command += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", *options]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}"}
    with (
        open(log, "wb") if log else nullcontext() as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, env=environment, cwd=folder, text=True
        ) as process,
    ):
        try:
            yield _ready(process) | {"pid": str(process.pid)}
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(READY_S) == 0
            finally:
                process.kill()


def _wait_until_ready(url: str) -> None:
    wait_until(
        lambda: httpx.get(url, timeout=30).status_code == 200,
        READY_S,
        lambda: "the router did not take the worker",
    )


def _ready(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(READY_PREFIX):
            facts: dict[str, str] = json.loads(line.removeprefix(READY_PREFIX))
            return facts
    raise AssertionError("the router ended before it was ready")
