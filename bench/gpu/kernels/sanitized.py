"""Every kernel once under NVIDIA's checker of memory accesses, where the machine has it and lets it run.

As a module, `python -m bench.gpu.kernels.sanitized DEVICE` launches them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.gpu.check import Item, NeedsDevice, Settings, Wrong
from bench.gpu.device import device_of

__all__ = ["items"]

_TOOL = "compute-sanitizer"
_FOLDER = "/usr/local/cuda/bin"
_CHECKS = ("memcheck", "racecheck")
_LIMIT_S = 100.0
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
_OUTPUT_CHARACTERS = 2000


def items(settings: Settings) -> Iterator[Item]:
    """One item a check of the tool."""
    for check in _CHECKS:
        yield Item(check, partial(_run, settings, check))


def _run(settings: Settings, check: str) -> dict[str, Any]:
    device = str(device_of(settings.dry).torch_device)
    command = [sys.executable, "-m", "bench.gpu.kernels.sanitized", device]
    if not settings.dry:
        tool = shutil.which(_TOOL) or shutil.which(_TOOL, path=_FOLDER)
        if tool is None:
            raise NeedsDevice(f"the machine has no {_TOOL}")
        command = [tool, "--tool", check, *command]
    elif check != _CHECKS[0]:
        raise NeedsDevice("needs a device")
    # Without a device, a busy machine may be ten times as slow: an item's own limit is enough.
    limit_s = None if settings.dry else _LIMIT_S
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    printed = done.stdout + done.stderr
    found = _ERRORS.search(printed)
    errors = int(found[1] or found[2]) if found else None
    if not settings.dry and found is None:
        raise NeedsDevice(f"{_TOOL} does not run here: {printed[-_OUTPUT_CHARACTERS:]}")
    values = {"errors": errors}
    if done.returncode or errors:
        raise Wrong(printed[-_OUTPUT_CHARACTERS:], values)
    return values


def _launch(device: str) -> None:
    from bench.gpu.models.shapes import TINY
    from bench.gpu.smoke.launches import launch_all

    # The interpreter launched all of them before.
    launch_all((TINY,) if device != "cpu" else (), small=True, device=device)


if __name__ == "__main__":
    _launch(sys.argv[1])
