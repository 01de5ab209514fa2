"""This machine's cores, memory and instruction sets, within the limits of its container."""

from __future__ import annotations

import math
import os
import platform
import time
from functools import cache
from importlib import util
from pathlib import Path

from spectrie.errors import ConfigError

__all__ = [
    "FAST_ON_GPU",
    "Competition",
    "available_memory_bytes",
    "bf16_flags",
    "cpu_class",
    "cpu_flags",
    "has_torch",
    "is_busy",
    "memory_limit_bytes",
    "num_cores",
    "require_packages",
    "require_torch",
    "why_no_core",
]

FAST_ON_GPU = (
    "arithmetic is fast: each token is the model's own draw, drafted or not, but equal requests and "
    "seeds may get different answers, because a result depends on the other rows of its batch"
)
"""What `gpu_arithmetic` `fast` gives up."""


# Instructions that code is chosen by.
_TELLING_FLAGS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_tile",
    "amx_bf16",
)
_PACKAGES = ("numpy", "safetensors")
_MARGIN_CORES = 0.5
_WATCH_S = 0.1
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _cgroup_folders(controller: str) -> list[Path]:
    """Folders whose limits on `controller` hold for this process: its own group and those around it.

    A container sees its own group as the root; a service of systemd is somewhere below.
    """
    roots = {"": _CGROUP, controller: _CGROUP / controller}  # version 2, version 1
    folders = list(roots.values())
    for line in (_read(_OWN_CGROUP) or "").splitlines():
        _, controllers, path = (line + "::").split(":")[:3]
        for name in controllers.split(","):
            if name in roots:
                own = roots[name] / path.strip("/")
                folders += [own, *own.parents]
    inside = [folder for folder in folders if folder.is_relative_to(_CGROUP)]
    return [folder for folder in dict.fromkeys(inside) if folder.is_dir()]


@cache
def _cpuinfo() -> dict[str, str]:
    values: dict[str, str] = {}
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        name, _, value = line.partition(":")
        values.setdefault(name.strip(), value.strip())
    return values


def cpu_flags() -> frozenset[str]:
    """Returns the instruction-set flags of the first core by Linux's names; empty if unknown."""
    return frozenset(_cpuinfo().get("flags", "").split())


def bf16_flags() -> frozenset[str]:
    """Returns the flags of native bfloat16 multiplication; empty if the CPU has none."""
    return cpu_flags() & {"avx512_bf16", "amx_bf16"}


def cpu_class() -> str:
    """Returns a name shared by CPUs with comparable timings: machine, model, instructions, cache."""
    info = _cpuinfo()
    model = "-".join(info.get(name, "?") for name in ("vendor_id", "cpu family", "model"))
    flags = "+".join(flag for flag in _TELLING_FLAGS if flag in cpu_flags())
    size = info.get("cache size", "?").replace(" ", "")
    return f"{platform.machine()}:{model}:{flags}:{size}"


def num_cores() -> int:
    """Returns the cores this process may use: its affinity and the container's quota, at least 1."""
    cores = len(_own_cpus())
    for folder in _cgroup_folders("cpu"):
        quota = _read(folder / "cpu.max")  # "max 100000" or "150000 100000"
        if quota and not quota.startswith("max"):
            limit, _, period = quota.partition(" ")
            cores = min(cores, math.floor(int(limit) / int(period or 100_000)))
        old = _read(folder / "cpu.cfs_quota_us")
        if old and int(old) > 0:
            period_us = int(_read(folder / "cpu.cfs_period_us") or 100_000)
            cores = min(cores, int(old) // period_us)
    return max(cores, 1)


class Competition:
    """Whether other processes compete for the cores, which makes timings unreliable: from its making on.

    This process and its children, such as the other ranks of a model, are not others. The load average would not do:
    it is that of a minute, and of all the machine's cores where a container has a few of them.
    """

    def __init__(self) -> None:
        """Begins to watch."""
        self._began_s = time.monotonic()
        self._others_s = _seconds_of_others()

    def is_there(self) -> bool:
        """Returns whether others left less than this process's cores, but for half a core, on average until now."""
        taken = self.cores()
        if taken is None:
            try:
                return os.getloadavg()[0] > num_cores() + _MARGIN_CORES
            except OSError:
                return False
        return len(_own_cpus()) - taken < num_cores() - _MARGIN_CORES

    def cores(self) -> float | None:
        """Returns how many of the cores that this process may use others used, on average until now; None if unknown."""
        others_s = _seconds_of_others()
        if self._others_s is None or others_s is None:
            return None
        elapsed_s = max(time.monotonic() - self._began_s, 1e-3)
        return max((others_s - self._others_s) / elapsed_s, 0.0)


def is_busy() -> bool:
    """Returns whether other processes compete for the cores now; watches for a tenth of a second."""
    competition = Competition()
    time.sleep(_WATCH_S)
    return competition.is_there()


def _own_cpus() -> set[int]:
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # not on this system
        return set(range(os.cpu_count() or 1))


def _seconds_of_others() -> float | None:
    """What others, and other virtual machines, have used of the cores that this process may use; None if unknown."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    names = {f"cpu{cpu}" for cpu in _own_cpus()}
    ticks = 0
    for line in (_read(Path("/proc/stat")) or "").splitlines():
        name, *fields = line.split()
        if name in names and len(fields) >= 8:
            names.remove(name)
            user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(
                int, fields[:8]
            )
            ticks += user + nice + system + interrupts + soft_interrupts + stolen
    if names:
        return None
    own = os.times()
    own_s = own.user + own.system + own.children_user + own.children_system
    return ticks / ticks_per_s - own_s - _ticks_of_children(os.getpid()) / ticks_per_s


def _ticks_of_children(pid: int) -> int:
    """What the children of a process that have not ended have used, and theirs."""
    ticks = 0
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, (_read(file) or "").split()):
            # The name before the state may hold spaces and brackets.
            _, _, after = (_read(Path(f"/proc/{child}/stat")) or "").rpartition(") ")
            fields = after.split()
            if len(fields) > 14:
                ticks += sum(map(int, fields[11:15]))
            ticks += _ticks_of_children(child)
    return ticks


def available_memory_bytes() -> int:
    """Returns the memory still available, in bytes, to the system and within the container's limit."""
    available = 0
    for line in (_read(Path("/proc/meminfo")) or "").splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    if not available:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    for folder in _cgroup_folders("memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.high", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _read(folder / limit_name), _read(folder / used_name)
            if limit is None or used is None or not limit.isdigit():
                continue
            left = int(limit) - int(used) + _reclaimable_bytes(folder)
            available = min(available, left)
    return max(available, 0)


def memory_limit_bytes() -> int | None:
    """Returns the least memory that a container's or service's group allows, in bytes; None if none limits it."""
    limits = [
        int(limit)
        for folder in _cgroup_folders("memory")
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        if (limit := _read(folder / name)) is not None and limit.isdigit()
    ]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Version 1 says "no limit" by a number beyond all memory.
    return min((limit for limit in limits if limit < total), default=None)


def _reclaimable_bytes(folder: Path) -> int:
    """Cached files count as used by a group but are given up on demand."""
    reclaimable = 0
    for line in (_read(folder / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            reclaimable = int(value)
    return reclaimable


def has_torch() -> bool:
    """Returns whether torch is installed, without importing it."""
    return util.find_spec("torch") is not None


def why_no_core() -> str | None:
    """Returns why servers and models cannot run here; None where the compiled core is installed."""
    if util.find_spec("spectrie._core") is not None:
        return None
    system = platform.system()
    elsewhere = "on a system with glibc 2.28 or later" if system == "Linux" else "on Linux"
    return (
        f"this is the client alone, as the package has no core for {system} {platform.machine()} as it is here: run "
        f"servers and models {elsewhere}, or build from source; spectrie.Client works here"
    )


def require_packages() -> None:
    """Refuses to go on without the compiled core, and the packages that run models on a CPU; a GPU needs more.

    Raises:
        ConfigError: One is not installed; the message says how to install it.
    """
    no_core = why_no_core()
    if no_core is not None:
        raise ConfigError(no_core)
    missing = [name for name in _PACKAGES if util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"running a model requires {' and '.join(missing)}: pip install 'spectrie[cpu]', or "
            "'spectrie[worker]' for a GPU"
        )


def require_torch(what: str) -> None:
    """Refuses what only torch computes where it is not installed.

    Args:
        what: The beginning of the message, before "needs torch".

    Raises:
        ConfigError: It is not installed; the message says how to install it.
    """
    if not has_torch():
        raise ConfigError(f"{what} needs torch: pip install 'spectrie[worker]'")
