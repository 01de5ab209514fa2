"""What was measured on: processor, memory, versions, commit, foreign load."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from spectrie.model.machine import Competition, bf16_flags

__all__ = ["ROOT", "commit_of", "facts", "foreign_cores"]

ROOT = Path(__file__).resolve().parents[2]


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
    """Runs `action`; gives its result and how many of this process's cores others used meanwhile, as `Competition` counts
    them."""
    watch = Competition()
    result = action()
    return result, watch.cores() or 0.0


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
