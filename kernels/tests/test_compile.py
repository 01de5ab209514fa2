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
    "_split_kernel rows=16 mma.sync",  # tiles of 16 rows are too low for wgmma
    "_split_kernel rows=64 wgmma",
    "_combine_kernel rows=1",
    "_row_argmax_kernel rows=1",
    "_verify_greedy_kernel rows=1",
}


def test_every_kernel_compiles_and_multiplies_on_tensor_cores(tmp_path: Path) -> None:
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, __file__]
    end = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr[-4000:]
    assert set(end.stdout.splitlines()) == EXPECTED


def main() -> None:
    """Compiles all kernels; shapes of a model with 32 query and 8 key-value heads of 128."""
    from spectrie_kernels.device import row_argmax, tree_attention, verify_greedy

    requests = ("row_start", "row_count", "kv_len", "kind", "split")
    pointers = dict.fromkeys((f"request_{name}" for name in requests), INT32)
    pointers |= dict.fromkeys(("page_indptr", "page_ids", "row_owner"), INT32)
    pointers |= dict.fromkeys(("block_request", "block_first"), INT32)
    pointers |= dict.fromkeys(("partial", "partial_max", "partial_sum", "logits"), "*fp32")
    pointers |= dict.fromkeys(("query", "key_cache", "value_cache"), "*bf16")
    walk = ("argmax", "row_token", "row_parent", "counts", "path_rows", "emitted")
    pointers |= dict.fromkeys(walk, INT32)
    pointers |= {"row_ancestors": "*i64", "scale_log2": "fp32"}
    pointers |= dict.fromkeys(("num_rows", "vocabulary", "row_stride"), "i32")

    shape = {"GROUP": 4, "KV_HEADS": 8, "HEAD_DIM": 128, "PAGE_SIZE": 16}
    for rows in (16, 64):
        tile = {"BLOCK_ROWS": rows, "BLOCK_KEYS": 64, "BLOCK_DIM": 128}
        compiled(tree_attention._split_kernel, pointers, {**shape, **tile})
    combine = {"HEADS": 32, "HEAD_DIM": 128, "BLOCK_DIM": 128}
    compiled(tree_attention._combine_kernel, {**pointers, "output": "*bf16"}, combine)
    compiled(
        row_argmax._row_argmax_kernel, {**pointers, "output": INT32}, {"BLOCK": row_argmax.BLOCK}
    )
    compiled(verify_greedy._verify_greedy_kernel, pointers, {"MAX_ROWS": verify_greedy.MAX_ROWS})


def compiled(kernel: object, types: dict[str, str], constants: dict[str, int]) -> None:
    """Compiles one kernel and prints its name, tile height and matrix instruction."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names  # type: ignore[attr-defined]
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    values = {(names.index(name),): value for name, value in constants.items()}
    binary = triton.compile(ASTSource(kernel, signature, values), GPUTarget("cuda", CAPABILITY, 32))
    assert binary.asm["cubin"]
    kinds = [kind for kind in ("wgmma", "mma.sync") if kind in binary.asm["ptx"]]
    rows = constants.get("BLOCK_ROWS", 1)
    print(" ".join([kernel.__name__, f"rows={rows}", *kinds[:1]]))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
