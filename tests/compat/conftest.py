"""A server, and the programs that `make compat` builds to talk to it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spectrie.client import Client
from tests.system.server import serve
from tests.tiny_model import write_tiny_model

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools" / "compat"
RUN_S = 240

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the programs."""
    if not (TOOLS / "venv" / "bin" / "python").exists():
        pytest.skip("needs the programs that `make compat` builds")
    return TOOLS


@pytest.fixture(scope="session")
def run(tools: Path) -> Run:
    """Runs one of the programs, by its name and arguments."""

    def run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [tools / "bin" / name, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)

    return run


@pytest.fixture(scope="session")
def server(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Facts of a running server of the tiny model."""
    del tools
    tiny = write_tiny_model(tmp_path_factory.mktemp("compat") / "tiny", max_context=4096)
    with serve(tiny) as program:
        yield program.wait_ready()


@pytest.fixture
def client(server: dict[str, Any]) -> Iterator[Client]:
    """Our own client, which says what is right."""
    with Client(server["grpc"]) as client:
        yield client
