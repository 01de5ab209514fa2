"""What the processes of a server hold."""

from __future__ import annotations

import os
from pathlib import Path

from tests.system.server import Program

__all__ = ["num_descriptors", "resident_bytes", "router_pid"]


def resident_bytes(pid: int) -> int:
    """Memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def num_descriptors(pid: int) -> int:
    """Open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def router_pid(program: Program) -> int:
    """The child of a server that is its router."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(parent) == program.process.pid and b"router" in command:
            return int(folder.name)
    raise AssertionError("no router")
