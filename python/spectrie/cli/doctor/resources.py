"""What `spectrie doctor` says of memory, disk and the limits of a process."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

from spectrie.cli.doctor.check import Check, State
from spectrie.model.files.store import cache_folder
from spectrie.model.machine import available_memory_bytes, memory_limit_bytes

__all__ = ["check_cache", "check_limits", "check_memory", "check_state_dir"]

_GIB = 2**30
_FEW_FILES = 1024
"""Open files below which `serve` takes few connections: each needs one."""


def check_memory() -> Check:
    """Memory of the machine or of the container, and what is left of it."""
    limit = memory_limit_bytes()
    usable = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if limit is None else limit
    what = "" if limit is None else " (limit of the container)"
    text = f"{usable / _GIB:.1f} GiB{what}, {available_memory_bytes() / _GIB:.1f} GiB available"
    if usable < 2 * _GIB:
        return Check("memory", "note", f"{text}: enough for small models only")
    return Check("memory", "ok", text)


def check_limits() -> Check:
    """The limits of a process (`ulimit`) that serving meets."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = [f"{_number(files)} open files"]
    advice = []
    if 0 <= files < _FEW_FILES:
        way = f"ulimit -n {_number(most)}" if most > files else "LimitNOFILE= or nofile"
        advice.append(f"each connection takes one: raise it by {way}")
    for name, kind, flag in (
        ("address space", resource.RLIMIT_AS, "v"),
        ("data", resource.RLIMIT_DATA, "d"),
    ):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(f"{limit / _GIB:.1f} GiB of {name}")
            advice.append(f"models are mapped into it: ulimit -{flag} unlimited")
    text = ", ".join(found)
    if advice:
        return Check("limits", "note", f"{text}: {'; '.join(advice)}")
    return Check("limits", "ok", text)


def check_cache() -> Check:
    """Where models and bigrams are kept, and how much room is left there."""
    return _folder("cache", cache_folder(), "set SPECTRIE_CACHE to a writable folder")


def check_state_dir(folder: str | None) -> Check:
    """Where draft memory is kept across restarts."""
    if folder is None:
        return Check("state", "ok", "none asked for: --state-dir DIR checks one")
    return _folder("state", Path(folder), "choose a writable folder with --state-dir")


def _folder(name: str, folder: Path, advice: str) -> Check:
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if not os.access(existing, os.W_OK):
        return Check(name, "fail", f"{folder} is not writable: {advice}")
    free = shutil.disk_usage(existing).free / _GIB
    state: State = "ok" if free > 2 else "note"
    return Check(name, state, f"{folder}, {free:.1f} GiB free")


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
