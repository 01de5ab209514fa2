"""Whether there is a GPU, asked without waiting for torch where nothing could reach one."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import ctypes, pathlib, sys
from spectrie.model import gpu

class Library(ctypes.CDLL):
    def __init__(self, name, *args, **kwargs):
        if name == "libcuda.so.1":
            name = None if {driver} else "no such library"
        super().__init__(name, *args, **kwargs)

ctypes.CDLL = Library
gpu._DEVICES = (pathlib.Path("/no/such/device"), pathlib.Path({device!r}))
gpu.is_available()
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("driver", "device", "is_asked"),
    [(False, "/no/such/device", False), (True, "/no/such/device", True), (False, "/dev", True)],
    ids=["neither", "CUDA's library", "a device"],
)
def test_torch_is_asked_for_a_gpu_only_where_something_reaches_one(
    driver: bool, device: str, is_asked: bool
) -> None:
    pytest.importorskip("torch")
    code = ASK.format(driver=driver, device=device)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{is_asked}\n"
