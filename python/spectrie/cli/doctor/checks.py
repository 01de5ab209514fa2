"""The checks of `spectrie doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path

from spectrie.cli.doctor.check import Check, State
from spectrie.cli.doctor.drafter import check_drafter
from spectrie.cli.doctor.gpu import check_exactness, check_gpu
from spectrie.errors import SpectrieError
from spectrie.model.files.store import cache_folder, entry
from spectrie.model.machine import bf16_flags, cpu_flags, num_cores

__all__ = ["run_checks"]


def run_checks(model: str, drafter: str | None = None) -> Iterator[Check]:
    """Runs every check, the quick ones first; none of them downloads or writes, but for a drafter's times,
    which are kept as at a start.

    Args:
        model: Name or folder of a model.
        drafter: A drafter for it, as `--drafter` names it; None loads none.
    """
    steps: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("python", _python),
        ("core", _core),
        ("torch", _torch),
        ("processor", _processor),
        ("memory", _memory),
        ("gpu", check_gpu),
        ("cache", _cache),
        ("model", lambda: _model(model)),
        ("exactness", lambda: check_exactness(_stored(model))),
        ("drafter", lambda: check_drafter(drafter, _stored(model))),
        ("port 8000", lambda: _port(8000, "--http")),
        ("port 50051", lambda: _port(50051, "--grpc")),
    )
    for name, step in steps:
        try:
            yield step()
        except (OSError, SpectrieError, ImportError, ValueError) as error:
            yield Check(name, "fail", str(error))


def _python() -> Check:
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.platform != "linux":
        return Check("python", "note", f"{text}; only Linux x86_64 is tested")
    return Check("python", "ok", text)


def _core() -> Check:
    if util.find_spec("spectrie._core") is None:
        return Check("core", "fail", "the compiled module is missing: reinstall, or run make setup")
    from spectrie._core import __version__

    return Check("core", "ok", f"spectrie {__version__}")


def _torch() -> Check:
    if util.find_spec("torch") is None:
        return Check(
            "torch",
            "note",
            "missing, so models run on the CPU alone: pip install 'spectrie[worker]' for GPUs",
        )
    return Check("torch", "ok", metadata.version("torch"))


def _processor() -> Check:
    cores = num_cores()
    if bf16_flags():
        return Check(
            "processor", "ok", f"{cores} cores, bfloat16 instructions: dtype auto is bfloat16"
        )
    if "avx2" in cpu_flags():
        return Check("processor", "ok", f"{cores} cores, AVX2: dtype auto is float32")
    return Check("processor", "note", f"{cores} cores, no AVX2 seen: float32, and slow")


def _memory() -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _cgroup_limit()
    usable = min(total, limit) if limit is not None else total
    text = f"{usable / 2**30:.1f} GiB"
    if limit is not None and limit < total:
        text += " (limit of the container)"
    if usable < 2 * 2**30:
        return Check("memory", "note", f"{text}: enough for small models only")
    return Check("memory", "ok", text)


def _cgroup_limit() -> int | None:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _cache() -> Check:
    folder = cache_folder()
    existing = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    if not os.access(existing, os.W_OK):
        return Check(
            "cache", "fail", f"{folder} is not writable: set SPECTRIE_CACHE to a writable folder"
        )
    free = shutil.disk_usage(existing).free / 2**30
    state: State = "ok" if free > 2 else "note"
    return Check("cache", state, f"{folder}, {free:.1f} GiB free")


def _folder(model: str) -> Path:
    return Path(model) if Path(model).exists() else entry(model)


def _stored(model: str) -> Path | None:
    folder = _folder(model)
    return folder if (folder / "config.json").is_file() else None


def _model(model: str) -> Check:
    folder = _folder(model)
    if not folder.exists():
        return Check("model", "note", f"{model} is not stored yet: spectrie models fetch {model}")
    if folder.is_dir() and not (folder / "config.json").is_file():
        return Check("model", "fail", f"{folder} has no config.json, so it is not a model")
    return Check("model", "ok", f"{model} in {folder.absolute()}")


def _port(port: int, flag: str) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            text = f"{error.strerror}: stop the process that uses it, or choose another with {flag}"
            return Check(f"port {port}", "note", text)
    return Check(f"port {port}", "ok", "free")
