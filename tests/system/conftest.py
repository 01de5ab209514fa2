"""A tiny model for every test of this folder, and one server that tests share if they leave it well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spectrie
from tests.system.server import serve
from tests.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with a context long enough to act while an answer runs."""
    return write_tiny_model(tmp_path_factory.mktemp("served") / "tiny", max_context=4096)


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with a context so long that its answer outlasts what tests do meanwhile."""
    return write_tiny_model(tmp_path_factory.mktemp("long") / "tiny", max_context=16384)


@pytest.fixture(scope="session")
def server(tiny: Path) -> Iterator[dict[str, Any]]:
    """Facts of a running server."""
    with serve(tiny) as program:
        yield program.wait_ready()


@pytest.fixture(scope="module")
def llm(tiny: Path) -> Iterator[spectrie.LLM]:
    """The tiny model in this process."""
    with spectrie.LLM(tiny, dtype="float32", threads=1, kv_memory_bytes=64 << 20) as llm:
        yield llm


@pytest.fixture(scope="module")
def client(server: dict[str, Any]) -> Iterator[spectrie.Client]:
    """A client of the shared server."""
    with spectrie.Client(server["grpc"]) as client:
        yield client
