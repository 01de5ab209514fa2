"""The kernels compile for Hopper, whether or not there is such a device.

Triton's interpreter runs code that its compiler refuses, so passing under the interpreter alone
would not say that a kernel exists. Compiling needs a process without the interpreter: this file is
its script too, and prints one line per compiled kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CAPABILITY = 90
INT32 = "*i32"

EXPECTED = {
    "_row_argmax_kernel",
    "_verify_greedy_kernel",
}


def test_every_kernel_without_products_compiles(tmp_path: Path) -> None:
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, __file__]
    end = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr[-4000:]
    assert set(end.stdout.splitlines()) == EXPECTED


def main() -> None:
    """Compiles the kernels that have no file of their own for this."""
    from spectrie_kernels.device import row_argmax, verify_greedy

    walk = ("argmax", "row_token", "row_parent", "counts", "path_rows", "emitted", "output")
    types = dict.fromkeys((*walk, "request_row_start", "request_row_count"), INT32)
    types |= {"logits": "*fp32"} | dict.fromkeys(("vocabulary", "row_stride"), "i32")
    compiled(row_argmax._row_argmax_kernel, types, {"BLOCK": row_argmax.BLOCK})
    compiled(verify_greedy._verify_greedy_kernel, types, {"MAX_ROWS": verify_greedy.MAX_ROWS})


def compiled(kernel: object, types: dict[str, str], constants: dict[str, int]) -> None:
    """Compiles one kernel and prints its name."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names  # type: ignore[attr-defined]
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    binary = triton.compile(ASTSource(kernel, signature, values), GPUTarget("cuda", CAPABILITY, 32))
    assert binary.asm["cubin"]
    print(kernel.__name__)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
