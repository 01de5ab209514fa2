"""Cores and memory come from the cgroup where it allows less than the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.worker.resources import Resources, available

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return write(
        tmp_path / "proc", {"meminfo": f"MemTotal: 1 kB\nMemAvailable: {8 * GIB // 1024} kB"}
    )


def test_cgroup_two_limits_memory_and_counts_page_cache_as_free(tmp_path: Path, proc: Path) -> None:
    root = write(
        tmp_path / "cgroup",
        {
            "memory.max": str(4 * GIB),
            "memory.current": str(3 * GIB),
            "memory.stat": f"anon 5\ninactive_file {GIB}",
            "cpu.max": "50000 100000",
        },
    )
    assert available(root, proc) == Resources(cores=1, memory_bytes=2 * GIB)


def test_cgroup_one_limits_memory(tmp_path: Path, proc: Path) -> None:
    root = write(
        tmp_path / "cgroup",
        {
            "memory/memory.limit_in_bytes": str(4 * GIB),
            "memory/memory.usage_in_bytes": str(3 * GIB),
            "cpu/cpu.cfs_quota_us": "100000",
            "cpu/cpu.cfs_period_us": "100000",
        },
    )
    assert available(root, proc) == Resources(cores=1, memory_bytes=GIB)


def test_without_limits_the_machines_free_memory_counts(tmp_path: Path, proc: Path) -> None:
    root = write(
        tmp_path / "cgroup",
        {"memory.max": "max", "memory.current": "5", "cpu.max": "max 100000"},
    )
    assert available(root, proc).memory_bytes == 8 * GIB


def test_unknown_system_tells_no_memory_and_at_least_one_core(tmp_path: Path) -> None:
    found = available(tmp_path / "none", tmp_path / "none")
    assert found.memory_bytes is None
    assert found.cores >= 1


def test_division_leaves_every_part_a_core() -> None:
    assert Resources(2, 9).divided(3) == Resources(1, 3)
    assert Resources(8, None).divided(3) == Resources(2, None)
