"""The GPUs of this machine. Whatever loads or runs a model asks about them here, and only here."""

from __future__ import annotations

import ctypes
import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from spectrie.model.machine import has_torch

if TYPE_CHECKING:
    import torch

__all__ = [
    "compiler",
    "count",
    "device",
    "driver",
    "free_bytes",
    "host_compiler",
    "is_available",
    "mark",
    "name",
    "total_bytes",
    "use",
]

_DRIVER = Path("/sys/module/nvidia/version")
_DEVICES = (
    Path("/dev/nvidiactl"),
    Path("/dev/kfd"),
    Path("/dev/dxg"),
    Path("/run/opengl-driver/lib/libcuda.so.1"),
)
"""Of CUDA, of ROCm, of both in WSL, and of CUDA where libraries are found by their own search path."""


def is_available() -> bool:
    """Returns whether torch sees a GPU; without torch, or a driver, there is none."""
    # Torch takes seconds to import, and sees nothing where no driver can be loaded.
    if not (has_torch() and _has_driver()):
        return False
    import torch

    return torch.cuda.is_available()


def _has_driver() -> bool:
    """Whether the library is there by which CUDA reaches a GPU, or a device."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return any(path.exists() for path in _DEVICES)
    return True


def count() -> int:
    """Returns the number of GPUs."""
    import torch

    return torch.cuda.device_count()


def device(rank: int) -> torch.device:
    """Returns the GPU of a rank; 0 is that of a model on a single one."""
    import torch

    return torch.device("cuda", rank)


def use(device: torch.device) -> None:
    """Makes a GPU the one that this process launches on."""
    import torch

    torch.cuda.set_device(device)


def name(device: torch.device) -> str:
    """Returns the maker's name of a GPU."""
    import torch

    return torch.cuda.get_device_name(device)


def mark(device: torch.device) -> torch.cuda.Event:
    """Returns an event that has happened once a GPU has done all that it was given."""
    import torch

    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event


def free_bytes(device: torch.device) -> int:
    """Returns the memory of a GPU that no process uses, in bytes, after returning what torch has kept
    for later tensors."""
    import torch

    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info(device)[0])


def compiler() -> str | None:
    """Returns name and version of what compiles the kernels; None without one, where they would run in
    their torch form, in which rows are not independent."""
    from spectrie_kernels import has_triton

    return f"triton{metadata.version('triton')}" if has_triton() else None


def total_bytes(device: torch.device) -> int:
    """Returns the memory of a GPU, in bytes."""
    import torch

    return int(torch.cuda.mem_get_info(device)[1])


def driver() -> str | None:
    """Returns the version of the driver; None if the system does not say."""
    try:
        return _DRIVER.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def host_compiler() -> str | None:
    """Returns the C compiler that Triton builds its launches with, which it looks for in `CC` and by
    name; None if there is none."""
    names = (os.environ.get("CC"), "clang", "gcc")
    return next((name for name in names if name and shutil.which(name)), None)
