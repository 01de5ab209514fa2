"""What 200 tenants leave behind in memory does not grow with their requests, and a leak would show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spectrie._core import Source
from tests.soak.heap import can_count, slope
from tests.soak.tenants import MEMORY_BYTES
from tests.tiny_model import write_tiny_tokenizer

REQUESTS = 20_000
LONG_REQUESTS = 200_000
WARM_UP = 8_000
"""Until draft memory and prefix cache are full, and names, tables and queues as long as they become."""

PLANTED = 5_000
PLANTED_BYTES = 128
MOST_BYTES = 64
"""By which what is allocated may grow with each request."""

MOST_RESIDENT_BYTES = 256
"""By which resident memory may: it has the gaps between allocations, which a new mixture of sizes widens."""

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not can_count(), reason="the C library does not count allocations")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tokenizer."""
    return write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def run(folder: Path, **options: float | bool) -> dict[str, Any]:
    """What the traffic says of itself, from a process that allocates everything on the C heap."""
    flags = [f"--{name.replace('_', '-')}" for name in options]
    values = [[] if value is True else [str(value)] for value in options.values()]
    given = [word for flag, value in zip(flags, values, strict=True) for word in (flag, *value)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.tenants", str(folder), *given],
        cwd=ROOT,
        env=os.environ
        | {"PYTHONMALLOC": "malloc", "PYTHONPATH": os.pathsep.join(("python", str(ROOT)))},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def owned(point: dict[str, int], name: str) -> int:
    """Bytes beyond what draft memory says that it owns: a block more or less of that is no leak."""
    return point[name] - point["memory_bytes"]


def growth(series: dict[str, list[dict[str, int]]], name: str) -> tuple[float, float]:
    """Bytes by which a measure grows with each request: under steady load, and from rest to rest.

    What grows while requests run, such as a table that an idle engine empties, shows in the first; what is
    small beside the requests that run shows in the second.
    """
    first, last = series["idle"]
    rest = (owned(last, name) - owned(first, name)) / (last["requests"] - first["requests"])
    return slope([(point["requests"], owned(point, name)) for point in series["busy"]]), rest


def check(found: dict[str, Any], requests: int, visitors: float) -> None:
    """Memory does not grow, and what could make it grow was tried."""
    series = found["plain"]
    points = [*series["idle"], *series["busy"]]
    assert series["busy"][-1]["requests"] >= requests
    assert max(growth(series, "heap_bytes")) <= MOST_BYTES
    assert max(growth(series, "resident_bytes")) <= MOST_RESIDENT_BYTES
    assert all(0 < point["memory_bytes"] <= MEMORY_BYTES for point in points)
    assert found["left"] == 0
    kinds = {"EOS", "LENGTH", "CANCELLED", "DEADLINE", "REFUSED", "FAILED", "COMPLETE"}
    assert set(found["ends"]) == kinds
    assert sum(found["ends"].values()) >= requests
    tried = ("stopped", "failed_steps", "evicted_tokens", "accepted_tokens", "preemptions")
    assert all(found[name] > 0 for name in tried), found
    assert all(found["accepted_by_source"][one] > 0 for one in (Source.RECYCLED, Source.GRAMMAR))
    if visitors < 1:
        # Nobody comes back to what a visitor taught.
        assert found["forgotten"] > 0 and found["prefix_hit_tokens"] > 0


@pytest.fixture(scope="module")
def residents(folder: Path) -> dict[str, Any]:
    """200 tenants and a few visitors; then as many with a leak."""
    return run(
        folder,
        warm_up=WARM_UP,
        requests=REQUESTS,
        visitors=0.05,
        planted=PLANTED,
        planted_bytes=PLANTED_BYTES,
    )


def test_two_hundred_tenants_leave_nothing_behind(residents: dict[str, Any]) -> None:
    check(residents, REQUESTS, visitors=0.05)


def test_a_leak_of_128_bytes_a_request_is_found(residents: dict[str, Any]) -> None:
    series = residents["planted"]
    assert series["busy"][-1]["requests"] == PLANTED
    assert min(growth(series, "heap_bytes")) > MOST_BYTES


def test_a_new_tenant_with_each_request_leaves_nothing_behind(folder: Path) -> None:
    check(run(folder, warm_up=WARM_UP, requests=REQUESTS, visitors=1.0), REQUESTS, visitors=1.0)


def check_asked(found: dict[str, Any]) -> None:
    """A drafter was asked, and right where nobody else knew."""
    assert found["head_levels"] > 1000
    assert found["accepted_by_source"][Source.HEAD] > 100


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("overlap", [False, True])
def test_many_requests_with_a_drafter_leave_nothing_behind(folder: Path, overlap: bool) -> None:
    options = {"overlap": True} if overlap else {}
    found = run(
        folder,
        warm_up=WARM_UP,
        requests=LONG_REQUESTS,
        every=2000,
        visitors=0.5,
        drafter=True,
        **options,
    )
    check(found, LONG_REQUESTS, 0.5)
    check_asked(found)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("visitors", [0.05, 0.5, 1.0])
def test_many_requests_leave_nothing_behind(folder: Path, visitors: float, overlap: bool) -> None:
    options = {"overlap": True} if overlap else {}
    found = run(
        folder, warm_up=WARM_UP, requests=LONG_REQUESTS, every=2000, visitors=visitors, **options
    )
    check(found, LONG_REQUESTS, visitors)
