"""A tiny model and a Redis, for servers that share it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.fleet.redis_server import RedisServer
from tests.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that starts fast."""
    return write_tiny_model(tmp_path_factory.mktemp("fleet") / "tiny", max_context=2048)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis without any data."""
    with RedisServer(tmp_path) as server:
        yield server
