"""Cores and memory this process may use: the machine's, cut down by its cgroup."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Resources", "available"]

CGROUP_ROOT = Path("/sys/fs/cgroup")
PROC_ROOT = Path("/proc")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one process may use.

    Attributes:
        cores: Whole cores, at least 1.
        memory_bytes: Free memory; None where the system does not tell.
    """

    cores: int
    memory_bytes: int | None

    def divided(self, parts: int) -> Resources:
        """An equal share of this, for one of `parts` processes."""
        memory_bytes = None if self.memory_bytes is None else self.memory_bytes // parts
        return Resources(max(1, self.cores // parts), memory_bytes)


def available(cgroup_root: Path = CGROUP_ROOT, proc_root: Path = PROC_ROOT) -> Resources:
    """Reads affinity, cgroup (version 2, else 1) and free memory."""
    cores = _affinity()
    quota = _cpu_quota(cgroup_root)
    if quota is not None:
        cores = max(1, min(cores, int(quota)))
    candidates = [_free_memory(proc_root), _cgroup_memory(cgroup_root)]
    known = [c for c in candidates if c is not None]
    return Resources(cores, min(known) if known else None)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text is not None and text.isdigit() else None


def _cpu_quota(root: Path) -> float | None:
    """Cores of the cgroup's CPU quota; None without one."""
    text = _read(root / "cpu.max")
    if text is not None:
        quota, _, period = text.partition(" ")
        return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None
    old_quota = _number(root / "cpu" / "cpu.cfs_quota_us")
    old_period = _number(root / "cpu" / "cpu.cfs_period_us")
    return old_quota / old_period if old_quota and old_period else None


def _cgroup_memory(root: Path) -> int | None:
    """Bytes left below the cgroup's memory limit, the page cache counted as free."""
    for limit_file, used_file, stat_file in (
        ("memory.max", "memory.current", "memory.stat"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
        ),
    ):
        limit = _number(root / limit_file)
        used = _number(root / used_file)
        if limit is not None and used is not None:
            return max(0, limit - used + _inactive_file(root / stat_file))
    return None


def _inactive_file(path: Path) -> int:
    for line in (_read(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdigit():
            return int(value)
    return 0


def _free_memory(proc_root: Path) -> int | None:
    for line in (_read(proc_root / "meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
