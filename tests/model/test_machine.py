"""Cores and memory come from the container where it allows less than the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.model import machine

MIB = 1 << 20


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def test_cgroup_two_limits_memory_and_counts_page_cache_as_free(cgroup: Path) -> None:
    files = {
        "memory.max": str(40 * MIB),
        "memory.current": str(30 * MIB),
        "memory.stat": f"anon 5\ninactive_file {5 * MIB}",
    }
    write(cgroup, files)
    assert machine.available_memory_bytes() == 15 * MIB


def test_cgroup_one_limits_memory(cgroup: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": str(40 * MIB),
        "memory/memory.usage_in_bytes": str(30 * MIB),
    }
    write(cgroup, files)
    assert machine.available_memory_bytes() == 10 * MIB


def test_cgroup_without_limits_leaves_the_machine(cgroup: Path) -> None:
    unlimited = machine.available_memory_bytes()
    write(cgroup, {"memory.max": "max", "memory.current": "5", "cpu.max": "max 100000"})
    assert machine.available_memory_bytes() > unlimited // 2 > 40 * MIB
    assert machine.num_cores() >= 1


@pytest.mark.parametrize(
    "files",
    [
        {"cpu.max": "150000 100000"},
        {"cpu.max": "20000 100000"},
        {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"},
    ],
)
def test_cpu_quota_is_rounded_down_to_at_least_one_core(
    cgroup: Path, files: dict[str, str]
) -> None:
    write(cgroup, files)
    assert machine.num_cores() == 1
