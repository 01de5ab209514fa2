"""What was measured on: processor, memory, versions, commit, foreign load."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from spectrie.model.machine import bf16_flags

__all__ = ["ROOT", "busy_seconds", "commit_of", "facts", "foreign_cores"]

ROOT = Path(__file__).resolve().parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")


def facts(**more: Any) -> dict[str, Any]:
    """The machine's facts for a result file, and whatever the bench adds (dtype, threads)."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit_of(ROOT),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "cpu": _cpu_field("model name") or platform.processor(),
        "cpu_model": f"family {_cpu_field('cpu family')} model {_cpu_field('model')}".strip(),
        "cores": len(os.sched_getaffinity(0)),
        "bf16_instructions": sorted(bf16_flags()),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "transformers": _version("transformers"),
        **more,
    }


def commit_of(checkout: Path) -> str:
    """The commit that is checked out there, in twelve digits; empty if it is no checkout."""
    return _git("rev-parse", "--short=12", "HEAD", checkout=checkout)


def foreign_cores(action: Callable[[], Any]) -> tuple[Any, float]:
    """Runs `action`; gives its result and how many cores others used meanwhile.

    Others are all processes but this one and its children that have ended.
    """
    wall, busy, own = time.monotonic(), busy_seconds(), _own_seconds()
    result = action()
    elapsed = max(time.monotonic() - wall, 1e-9)
    foreign = (busy_seconds() - busy) - (_own_seconds() - own)
    return result, max(0.0, foreign / elapsed)


def busy_seconds() -> float:
    """Processor seconds that all processes of the machine have used since it started."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, fields)
    return (user + nice + system + irq + softirq) / _TICKS


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _cpu_field(name: str) -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str, checkout: Path = ROOT) -> str:
    done = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True)
    return done.stdout.strip()
