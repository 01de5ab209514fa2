"""What `spectrie doctor` says of a GPU: what it is, what compiles for it, and whether it is exact."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

from spectrie.cli.doctor.check import Check
from spectrie.model.machine import FAST_ON_GPU

__all__ = ["check_exactness", "check_gpu"]


def check_gpu() -> Check:
    """Name, memory, driver and compilers of the GPUs."""
    if util.find_spec("torch") is None:
        return Check("gpu", "ok", "not checked without torch")
    from spectrie.model import gpu

    if not gpu.is_available():
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


def check_exactness(folder: Path | None) -> Check:
    """What a row's bits depend on besides its own tokens.

    Args:
        folder: The model that was asked for; None if it is not stored.
    """
    from spectrie._core import cpu_arithmetic

    text = f"the CPU computes each row alone, with {cpu_arithmetic(bfloat16=True)} arithmetic"
    if util.find_spec("torch") is None:
        return Check("exactness", "ok", text)
    from spectrie.model import gpu

    if not gpu.is_available():
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
