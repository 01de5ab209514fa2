"""Kernels compiled for devices that are not there, and what their code holds.

Compiling needs a process without Triton's interpreter: `in_own_process` runs a test file as its own
script, which prints one JSON object a line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CAPABILITIES = (80, 90, 100)
QUICK_CAPABILITIES = (90,)
"""Of forms that take minutes to compile, when time is short."""
QUICK_OR_ALL = [
    pytest.param(QUICK_CAPABILITIES, id="one"),
    pytest.param(CAPABILITIES, id="all", marks=pytest.mark.deep),
]
SHARED_BYTES = {80: 164 << 10, 90: 228 << 10, 100: 228 << 10}
"""Shared memory of one multiprocessor; each program on it takes 1 KB besides its own."""
REGISTERS = 65536
"""Registers of one multiprocessor."""

_MATRIX = re.compile(r"(wgmma)\.mma_async\S*?(k\d+)\.|(mma)\.sync\S*?(k\d+)\.|(tcgen05)\.mma(\S*)")
_LOCAL = re.compile(r"\b(?:LDL|STL)\b")


@dataclass(frozen=True, slots=True)
class Code:
    """What one compiled kernel holds.

    Attributes:
        matrix: Families of its matrix instructions, each with its step or kind.
        registers: A thread's.
        stack_bytes: A thread's local memory.
        spills: Loads and stores of local memory.
        shared_bytes: A program's.
        threads: A program's.
        copies_16: Whether it copies 16 bytes at once to shared memory, ahead of use.
        loads_16: Whether it loads 16 bytes at once to registers.
        stores_16: Whether it stores 16 bytes at once.
        added_apart: Additions of float32 tiles that are no part of a matrix product.
        fused: Additions of float32 fused with a multiplication.
        fused_64: The same of float64.
        flushed: Instructions that take denormal numbers for zero.
        doubles: Its float64 constants, their bits in hexadecimal digits.
    """

    matrix: tuple[str, ...]
    registers: int
    stack_bytes: int
    spills: int
    shared_bytes: int
    threads: int
    copies_16: bool
    loads_16: bool
    stores_16: bool
    added_apart: int
    fused: int
    fused_64: int
    flushed: int
    doubles: tuple[str, ...]


def in_own_process(file: str, *arguments: str, cache: Path) -> list[dict[str, Any]]:
    """Runs `file` as a script without the interpreter; returns the objects that it prints."""
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(cache)
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "kernels")])
    command = [sys.executable, file, *arguments]
    end = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr[-4000:]
    return [json.loads(line) for line in end.stdout.splitlines()]


def compiled(
    kernel: Any,
    types: dict[str, str],
    constants: dict[str, Any],
    capability: int,
    **options: int,
) -> Code:
    """Compiles one kernel, with `options` of the compiler.

    Its pointers are multiples of 16 bytes, as those of tensors are.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    aligned = {
        (names.index(name),): [["tt.divisibility", 16]]
        for name, kind in signature.items()
        if kind.startswith("*")
    }
    binary = triton.compile(
        ASTSource(kernel, signature, values, aligned),
        GPUTarget("cuda", capability, 32),
        options=options,
    )
    dumped = _dumped(binary.asm["cubin"])
    ptx = binary.asm["ptx"]
    families = {"-".join(filter(None, found)) for found in _MATRIX.findall(ptx)}
    return Code(
        matrix=tuple(sorted(one.replace(".cta_group::1.kind::", "") for one in families)),
        registers=int(_number("REG", dumped)),
        stack_bytes=int(_number("STACK", dumped)),
        spills=len(_LOCAL.findall(dumped)),
        shared_bytes=int(binary.metadata.shared),
        threads=32 * binary.metadata.num_warps,
        copies_16=re.search(r"cp\.async\.cg\.shared\.global[^;]*, 0x10", ptx) is not None,
        loads_16=re.search(r"\bld\.global\S*\.v4\.b32|\bld\.global\S*\.v2\.b64", ptx) is not None,
        stores_16=re.search(r"\bst\.global\S*\.v4\.b32|\bst\.global\S*\.v2\.b64", ptx) is not None,
        added_apart=len(re.findall(r"arith\.addf .*tensor<\d+x\d+xf32>", binary.asm["ttir"])),
        fused=len(re.findall(r"\bfma\.rn\.f32", ptx)),
        fused_64=len(re.findall(r"\bfma\.rn\.f64", ptx)),
        flushed=len(re.findall(r"\.ftz\b", ptx)),
        doubles=tuple(sorted(set(re.findall(r"\b0d([0-9A-F]{16})\b", ptx)))),
    )


def _dumped(cubin: bytes) -> str:
    """Resource usage and assembly, read by the tool that comes with Triton."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", "-sass", file.name]
        end = subprocess.run(command, capture_output=True, text=True, check=True)
    return end.stdout


def _number(name: str, dumped: str) -> str:
    found = re.search(rf"\b{name}:(\d+)", dumped)
    assert found, dumped[:2000]
    return found[1]
