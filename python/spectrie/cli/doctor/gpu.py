"""What `spectrie doctor` says of a GPU: what it is, what compiles for it, and whether it is exact."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

from spectrie.cli.doctor.check import Check, State
from spectrie.model.machine import FAST_ON_GPU, bf16_flags
from spectrie.version import __version__

__all__ = ["check_exactness", "check_gpu", "check_kernels"]


def check_gpu(chosen: str) -> Check:
    """Name, memory, driver and compilers of the GPUs.

    Args:
        chosen: The device that was asked for: `auto`, `cpu` or `cuda`.
    """
    if chosen == "cpu":
        return Check("gpu", "ok", "not asked for: --device cpu")
    if util.find_spec("torch") is None:
        state: State = "fail" if chosen == "cuda" else "ok"
        return Check("gpu", state, "not checked without torch")
    from spectrie.model import gpu

    if not gpu.is_available():
        if chosen == "cuda":
            return Check("gpu", "fail", "none that torch sees: mend its driver, or --device cpu")
        return Check("gpu", "ok", "none: models run on the CPU")
    device, count = gpu.device(0), gpu.count()
    free, total = gpu.free_bytes(device) / 2**30, gpu.total_bytes(device) / 2**30
    triton = gpu.compiler()
    facts = [
        f"{gpu.name(device)}{f' ({count} GPUs)' if count > 1 else ''}",
        f"{free:.1f} of {total:.1f} GiB free",
        f"driver {gpu.driver() or 'unknown'}",
        f"torch {metadata.version('torch')}",
        triton or "no Triton",
    ]
    text = ", ".join(facts)
    if triton is None:
        return Check("gpu", "note", f"{text}: {FAST_ON_GPU}; install triton")
    compiler = gpu.host_compiler()
    if compiler is None:
        text += (
            "; Triton needs a C compiler to launch kernels: install gcc, or serve with --device cpu"
        )
        return Check("gpu", "fail", text)
    return Check("gpu", "ok", f"{text}, {compiler}")


def check_kernels(chosen: str) -> Check:
    """What computes on the chosen device.

    Args:
        chosen: The device that was asked for: `auto`, `cpu` or `cuda`.
    """
    from spectrie._core import cpu_arithmetic

    if not _runs_on_gpu(chosen):
        arithmetic = cpu_arithmetic(bfloat16=bool(bf16_flags()))
        return Check(
            "kernels", "ok", f"compiled into the core, {arithmetic}; no compiler is needed"
        )
    found = metadata.version("spectrie-kernels")
    if found != __version__:
        text = f"spectrie-kernels {found} is not of this version: install {__version__}"
        return Check("kernels", "fail", text)
    return Check("kernels", "ok", f"spectrie-kernels {found}, compiled at their first use")


def _runs_on_gpu(chosen: str) -> bool:
    if chosen == "cpu" or util.find_spec("torch") is None:
        return False
    from spectrie.model import gpu

    return gpu.is_available()


def check_exactness(folder: Path | None, chosen: str) -> Check:
    """What a row's bits depend on besides its own tokens.

    Args:
        folder: The model that was asked for; None if it is not stored.
        chosen: The device that was asked for: `auto`, `cpu` or `cuda`.
    """
    from spectrie._core import cpu_arithmetic

    text = f"the CPU computes each row alone, with {cpu_arithmetic(bfloat16=True)} arithmetic"
    if not _runs_on_gpu(chosen):
        return Check("exactness", "ok", text)
    if folder is None:
        return Check("exactness", "ok", f"{text}; the GPU is checked with a model that is stored")
    from spectrie.model.runner.device_check import why_not_exact

    reason = why_not_exact(folder)
    if reason is None:
        return Check("exactness", "ok", "the GPU multiplies each row alone, and so does the CPU")
    return Check(
        "exactness",
        "note",
        f"the GPU is not exact with this model, since {reason}: its {FAST_ON_GPU}",
    )
