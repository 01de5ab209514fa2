"""The GPUs of this machine. Whatever loads or runs a model asks about them here, and only here."""

from __future__ import annotations

from importlib import metadata

import torch

from spectrie_kernels import has_triton

__all__ = ["compiler", "count", "device", "free_bytes", "is_available", "name", "use"]


def is_available() -> bool:
    """Returns whether torch sees a GPU."""
    return torch.cuda.is_available()


def count() -> int:
    """Returns the number of GPUs."""
    return torch.cuda.device_count()


def device(rank: int) -> torch.device:
    """Returns the GPU of a rank; 0 is that of a model on a single one."""
    return torch.device("cuda", rank)


def use(device: torch.device) -> None:
    """Makes a GPU the one that this process launches on."""
    torch.cuda.set_device(device)


def name(device: torch.device) -> str:
    """Returns the maker's name of a GPU."""
    return torch.cuda.get_device_name(device)


def free_bytes(device: torch.device) -> int:
    """Returns the memory of a GPU that no process uses, in bytes."""
    return int(torch.cuda.mem_get_info(device)[0])


def compiler() -> str | None:
    """Returns name and version of what compiles the kernels; None without one, where they would run in
    their torch form, in which rows are not independent."""
    return f"triton{metadata.version('triton')}" if has_triton() else None
