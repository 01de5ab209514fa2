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


def test_the_limits_of_its_own_group_and_of_those_around_it_hold(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = cgroup / "own"
    own.write_text("0::/system.slice/worker.service\n")
    monkeypatch.setattr(machine, "_OWN_CGROUP", own)
    used = {"memory.current": str(10 * MIB)}
    write(
        cgroup / "system.slice", {"memory.max": str(80 * MIB), **used, "cpu.max": "100000 100000"}
    )
    write(cgroup / "system.slice" / "worker.service", {"memory.max": "max", **used})
    assert machine.available_memory_bytes() == 70 * MIB
    assert machine.num_cores() == 1
    write(cgroup / "system.slice" / "worker.service", {"memory.high": str(30 * MIB)})
    assert machine.available_memory_bytes() == 20 * MIB


def test_a_group_of_version_one_is_found_by_its_controller(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = cgroup / "own"
    own.write_text("5:cpu,cpuacct:/\n4:memory:/jobs/1\n0::/\n")
    monkeypatch.setattr(machine, "_OWN_CGROUP", own)
    limits = {"memory.limit_in_bytes": str(40 * MIB), "memory.usage_in_bytes": str(30 * MIB)}
    write(cgroup / "memory" / "jobs" / "1", limits)
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
