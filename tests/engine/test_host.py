"""What a host decides about its engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spectrie.engine.config import EngineOptions
from spectrie.engine.host import overlaps
from spectrie.errors import ConfigError
from spectrie.model import machine

CORES = machine.num_cores()


def runner(device_name: str, threads: int) -> Any:
    return SimpleNamespace(device_name=device_name, threads=threads)


@pytest.mark.parametrize(
    ("wish", "device_name", "threads", "expected"),
    [
        ("auto", "cpu", CORES, False),
        ("auto", "cpu", CORES - 1, True),
        ("auto", "NVIDIA H200", CORES, True),
        ("on", "cpu", CORES, True),
        ("off", "NVIDIA H200", 1, False),
    ],
)
def test_learning_overlaps_where_it_takes_the_model_no_core(
    wish: str, device_name: str, threads: int, expected: bool
) -> None:
    assert overlaps(EngineOptions(overlap=wish), runner(device_name, threads)) is expected


def test_other_wishes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"overlap is .maybe., allowed: auto, on, off"):
        overlaps(EngineOptions(overlap="maybe"), runner("cpu", 1))
