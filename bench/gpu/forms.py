"""Every form of the kernels that serving launches, compiled on all cores at once."""

from __future__ import annotations

import importlib
import multiprocessing
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import numpy as np
import torch
import triton
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction, MockTensor

import spectrie_kernels
from bench.gpu.check import Item, Settings
from bench.gpu.device import device_of
from spectrie.model.machine import num_cores
from spectrie_kernels import AttentionLayout, AttentionRows, AttentionTiles

__all__ = ["Form", "forms", "items"]

# Query heads, key-value heads, size of a head: SmolLM2-135M, Qwen2.5 of 0.5, 1.5 and 7B, Llama 8B.
_HEADS = ((9, 3, 64), (14, 2, 64), (12, 2, 128), (28, 4, 128), (32, 8, 128))
_TINY_HEADS = ((4, 2, 16),)
_TREE_ROWS = 64
# Of one row, of a few, and of the tree heights above, in multiples of 16 and not; then a prompt's.
_ROWS = (1, 3, 12, 16, 24, 32, 40, 64, 100)
# Of 4, 8, 16 and 32 splits, where a model has so many.
_LENGTHS = (300, 500, 1_000, 2_100)
_VOCABULARIES = (352, 49_152, 151_936, 152_064)


@dataclass(frozen=True, slots=True)
class Form:
    """One kernel with the types and constants of a launch.

    Attributes:
        module: Where the kernel is.
        kernel: Its name there.
        arguments: As launched, with stand-ins for tensors.
        keywords: Its constants.
    """

    module: str
    kernel: str
    arguments: tuple[Any, ...] = field(repr=False)
    keywords: dict[str, Any]

    @property
    def name(self) -> str:
        """Kernel, constants, and what else distinguishes it from its other forms."""
        kinds = [str(one.dtype).removeprefix("torch.") for one in self._tensors()]
        floats = sorted({kind for kind in kinds if "float" in kind})
        floats = [kind for kind in floats if kind != "float32"] or floats
        numbers = [str(one) for one in self.arguments if isinstance(one, int)]
        constants = [f"{key}={value}" for key, value in self.keywords.items()]
        return " ".join([self.kernel, *floats, *numbers, *constants])

    @property
    def key(self) -> str:
        """Equal for launches that Triton compiles once: numbers count as 1, multiples of 16, others."""
        kinds = [str(one.dtype) for one in self._tensors()]
        numbers = [
            "1" if one == 1 else "16n" if one % 16 == 0 else "n"
            for one in self.arguments
            if isinstance(one, int)
        ]
        return f"{self.kernel} {kinds} {numbers} {sorted(self.keywords.items())}"

    def _tensors(self) -> list[MockTensor]:
        return [one for one in self.arguments if isinstance(one, MockTensor)]


def items(settings: Settings) -> Iterator[Item]:
    """One item a form; all are being compiled from the first one on."""
    target = device_of(settings.dry).capability
    found = forms(_TINY_HEADS if settings.dry else _HEADS + _TINY_HEADS, settings.dry)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ThreadPoolExecutor(num_cores()) as pool:
        compiled = [pool.submit(_compile_apart, context, form, target) for form in found]
        for form, future in zip(found, compiled, strict=True):
            yield Item(form.name, partial(_result, future, settings.dry))


def _result(future: Future[dict[str, Any]], dry: bool) -> dict[str, Any]:
    values = future.result()
    # Not a measurement where the clock is not real.
    return values | {"compile_seconds": 0.0} if dry else values


def forms(heads: tuple[tuple[int, int, int], ...], small: bool) -> list[Form]:
    """The launches of a covering set of steps, each form once.

    Args:
        heads: Query heads, key-value heads and size of a head of each model.
        small: Whether a few rows and one number format are enough.
    """
    found: dict[str, Form] = {}
    rows = (1, 16, 100) if small else _ROWS
    with _launches(found), FakeTensorMode(allow_non_fake_inputs=True):
        for query_heads, kv_heads, head_dim in heads:
            # What a GPU serves with, and once each what it can be asked for.
            dtypes = [torch.bfloat16]
            if heads.index((query_heads, kv_heads, head_dim)) == 0 and not small:
                dtypes += [torch.float16, torch.float32]
            if (query_heads, kv_heads, head_dim) in _TINY_HEADS:
                dtypes = [torch.float32] if small else [torch.bfloat16, torch.float32]
            for dtype in dtypes:
                for count in rows:
                    _attend(count, query_heads, kv_heads, head_dim, dtype, None)
                for kv_len in () if small else _LENGTHS:
                    _attend(1, query_heads, kv_heads, head_dim, dtype, None, kv_len)
                # A window is a constant of the kernels.
                _attend(rows[0], query_heads, kv_heads, head_dim, dtype, 128)
        for vocabulary in _VOCABULARIES[:1] if small else _VOCABULARIES:
            logits = torch.empty(4, vocabulary, device="cuda")
            spectrie_kernels.row_argmax(logits)
            if not small:
                spectrie_kernels.row_argmax(logits.bfloat16())
        row = torch.zeros(1, dtype=torch.int32, device="cuda")
        spectrie_kernels.verify_greedy(row, row, row, row, row)
    return list(found.values())


def _attend(
    rows: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    window: int | None,
    kv_len: int = 200,
) -> None:
    """A tree of `rows` rows, or a chunk of a prompt where they are more than a tree holds."""
    tree = rows <= _TREE_ROWS
    words = [(2 << row) - 1 if tree else 0 for row in range(rows)]
    pages = np.arange(-(-(kv_len + rows) // 16), dtype=np.int32)
    step = AttentionRows(
        row_ancestors=np.array(words, np.uint64).view(np.int64),
        request_row_start=np.array([0], np.int32),
        request_row_count=np.array([rows], np.int32),
        request_kv_len=np.array([kv_len], np.int32),
        request_kind=np.array([tree], np.int32),
        page_indptr=np.array([0, len(pages)], np.int32),
        page_ids=pages,
        page_size=16,
    )
    layout = AttentionLayout.of(
        step,
        group=heads // kv_heads,
        kv_heads=kv_heads,
        tiles=AttentionTiles.of(head_dim, dtype.itemsize),
        windows=[window],
        device="cuda",
    )
    query = torch.empty(rows, heads, head_dim, dtype=dtype, device="cuda")
    cache = torch.empty(16 * len(pages), kv_heads, head_dim, dtype=dtype, device="cuda")
    spectrie_kernels.tree_attention(query, cache, cache, layout, head_dim**-0.5, window=window)


@contextmanager
def _launches(found: dict[str, Form]) -> Iterator[None]:
    """Notes launches instead of performing them."""

    def note(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        stand_ins = tuple(
            MockTensor(one.dtype) if isinstance(one, torch.Tensor) else one for one in arguments
        )
        form = Form(kernel.fn.__module__, kernel.fn.__name__, stand_ins, keywords)
        found.setdefault(form.key, form)

    with mock.patch.object(JITFunction, "run", note):
        yield


def _compile_apart(context: Any, form: Form, target: int) -> dict[str, Any]:
    """Compiles in a process of its own: the compiler's failures may end it.

    Raises:
        RuntimeError: The form cannot be compiled.
    """
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_compile, args=(form, target, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        values, error = ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the compiler ended with code {process.exitcode}") from None
    process.join()
    if error is not None:
        raise RuntimeError(error)
    result: dict[str, Any] = values
    return result


class _NoDriver:
    """As much of a driver as compiling needs, so that it opens no device."""

    def __init__(self, target: int) -> None:
        self._target = GPUTarget("cuda", target, 32)

    def get_current_target(self) -> GPUTarget:
        """What is compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """Any number."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """Any number."""
        return 0


def _compile(form: Form, target: int, answer: Connection) -> None:
    from bench.gpu.child import described

    try:
        answer.send((_compiled(form, target), None))
    except Exception as error:
        answer.send((None, described(error)))


def _compiled(form: Form, target: int) -> dict[str, Any]:
    triton.runtime.driver.set_active(_NoDriver(target))
    kernel = getattr(importlib.import_module(form.module), form.kernel)
    started = time.perf_counter()
    # As a launch compiles, so that the first launch finds it on the disk.
    binary = kernel.warmup(*form.arguments, grid=(1,), **form.keywords)
    seconds = time.perf_counter() - started
    instructions = [kind for kind in ("wgmma", "mma.sync") if kind in binary.asm["ptx"]]
    return {
        "compile_seconds": round(seconds, 3),
        "shared_bytes": binary.metadata.shared,
        "matrix_instruction": instructions[0] if instructions else None,
        **_resources(binary.asm["cubin"]),
    }


def _resources(cubin: bytes) -> dict[str, int | None]:
    """Registers and bytes of stack of a thread, by the toolkit that Triton brings."""
    import tempfile

    names = {"registers": "REG", "stack_bytes": "STACK"}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            done = subprocess.run(
                [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, RuntimeError, subprocess.CalledProcessError):
            return dict.fromkeys(names)
    found = {name: re.search(rf"\b{key}:(\d+)", done.stdout) for name, key in names.items()}
    return {name: int(one[1]) if one else None for name, one in found.items()}
