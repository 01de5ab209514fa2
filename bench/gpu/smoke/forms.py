"""Every form of the kernels that serving launches, compiled on all cores at once."""

from __future__ import annotations

import importlib
import multiprocessing
import re
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import torch
import triton
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction, MockTensor

from bench.gpu.check import Item, Settings
from bench.gpu.device import device_of
from bench.gpu.models.shapes import MODELS, TINY, ModelShape
from bench.gpu.smoke.launches import launch_all
from spectrie.model.machine import num_cores

__all__ = ["Form", "compiling", "forms", "items", "noted"]


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

    def key(self, plain: frozenset[int]) -> str:
        """Equal for launches that Triton compiles once: numbers count as 1, multiples of 16, others.

        Args:
            plain: Places of arguments whose numbers it compiles nothing for.
        """
        kinds = [str(one.dtype) for one in self._tensors()]
        numbers = [
            "1" if one == 1 else "16n" if one % 16 == 0 else "n"
            for place, one in enumerate(self.arguments)
            if isinstance(one, int) and place not in plain
        ]
        return f"{self.kernel} {kinds} {numbers} {sorted(self.keywords.items())}"

    def _tensors(self) -> list[MockTensor]:
        return [one for one in self.arguments if isinstance(one, MockTensor)]


def items(settings: Settings) -> Iterator[Item]:
    """One item a form; all are being compiled from the first one on."""
    found = forms((TINY,) if settings.dry else (*MODELS, TINY), settings.dry)
    if settings.dry:
        # The tests of the kernels compile them all.
        found = list({one.kernel: one for one in reversed(found)}.values())
    with compiling(found, device_of(settings.dry).capability) as compiled:
        for form, future in zip(found, compiled, strict=True):
            yield Item(form.name, partial(_result, future, settings.dry))


@contextmanager
def compiling(found: Sequence[Form], target: int) -> Iterator[list[Future[dict[str, Any]]]]:
    """Compiles forms on all cores meanwhile, in their order; what has not begun at the end is dropped.

    Args:
        found: The forms.
        target: Compute capability, as 90 for 9.0.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "bench.gpu.smoke.ready"])
    with ThreadPoolExecutor(num_cores()) as pool:
        try:
            yield [pool.submit(_compile_apart, context, form, target) for form in found]
        finally:
            pool.shutdown(cancel_futures=True)


def _result(future: Future[dict[str, Any]], dry: bool) -> dict[str, Any]:
    values = future.result()
    # Not a measurement where the clock is not real.
    return values | {"compile_seconds": 0.0} if dry else values


def forms(models: tuple[ModelShape, ...], small: bool) -> list[Form]:
    """The launches of a covering set of steps, each form once.

    Args:
        models: Whose kernels.
        small: Whether a few rows and one number format are enough.
    """
    return noted(lambda: launch_all(models, small))


def noted(launch: Callable[[], object]) -> list[Form]:
    """What `launch` launches on `cuda`, each form once; nothing is launched."""
    found: dict[str, Form] = {}
    with (
        warnings.catch_warnings(action="ignore"),  # a fake tensor's address, which is looked at
        _launches(found),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        launch()
    return list(found.values())


@contextmanager
def _launches(found: dict[str, Form]) -> Iterator[None]:
    """Notes launches instead of performing them."""

    def note(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        stand_ins = tuple(
            MockTensor(one.dtype) if isinstance(one, torch.Tensor) else one for one in arguments
        )
        form = Form(kernel.fn.__module__, kernel.fn.__name__, stand_ins, keywords)
        plain = frozenset(one.num for one in kernel.params if one.do_not_specialize)
        found.setdefault(form.key(plain), form)

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
    from bench.gpu.running.child import described

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
