"""Device, dtype and arithmetic that `auto` stands for on this machine."""

from __future__ import annotations

from spectrie.errors import ConfigError
from spectrie.model import gpu, machine
from spectrie.model.files.arrays import ITEM_SIZES

__all__ = ["chosen_arithmetic", "chosen_device", "chosen_dtype"]


def chosen_device(name: str) -> str:
    """Returns `cpu` or `cuda`."""
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device is {name!r}; allowed: auto, cpu, cuda")
    if name == "cpu":
        # Asking for GPUs loads torch.
        return name
    has_gpu = gpu.is_available()
    if name == "cuda" and not has_gpu:
        machine.require_torch("device is 'cuda', which")
        raise ConfigError("device is 'cuda', but torch sees no CUDA device")
    return "cuda" if has_gpu else "cpu"


def chosen_dtype(name: str, device: str) -> str:
    """Returns `float32`, `bfloat16` or `float16`."""
    if name == "auto":
        # By CPU feature and never by timing, so that equal machines compute equal bits.
        fast = device == "cuda" or machine.bf16_flags()
        return "bfloat16" if fast else "float32"
    if name not in ITEM_SIZES:
        raise ConfigError(f"dtype is {name!r}; allowed: auto, float32, bfloat16, float16")
    if name == "float16" and device == "cpu":
        raise ConfigError("dtype is 'float16'; allowed on a CPU: auto, float32, bfloat16")
    return name


def chosen_arithmetic(name: str, device: str) -> tuple[str, str | None]:
    """Returns `exact` or `fast`, before anything of the model is read, and why it is not the first where nobody
    asked for the second."""
    if name not in ("auto", "exact", "fast"):
        raise ConfigError(f"gpu_arithmetic is {name!r}; allowed: auto, exact, fast")
    if name == "fast" or device == "cpu":
        return "fast", None
    if gpu.compiler() is not None:
        return "exact", None
    why = "exact arithmetic on a GPU needs Triton, which is not installed"
    if name == "auto":
        return "fast", why
    raise ConfigError(
        f"gpu_arithmetic is 'exact', but {why}: choose 'fast' (each token is the model's own draw, but "
        "equal requests and seeds may get different answers), or device 'cpu', which is always exact"
    )
