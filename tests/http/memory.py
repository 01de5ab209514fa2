"""What another process takes in memory."""

from __future__ import annotations

from pathlib import Path

__all__ = ["memory_bytes"]


def memory_bytes(pid: int, field: str = "VmRSS") -> int:
    """Bytes of memory that a process has, or the most that it ever had, as the field `VmHWM`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.removesuffix("kB")) * 1024
    raise AssertionError(f"no {field} of {pid}")
