"""The checks of `spectrie doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path

from spectrie.cli.doctor.addresses import check_address
from spectrie.cli.doctor.check import Asked, Check
from spectrie.cli.doctor.drafter import check_drafters
from spectrie.cli.doctor.gpu import check_exactness, check_gpu, check_kernels
from spectrie.cli.doctor.resources import (
    check_cache,
    check_limits,
    check_memory,
    check_state_dir,
)
from spectrie.errors import ConfigError, SpectrieError
from spectrie.model.files.store import entry
from spectrie.model.machine import bf16_flags, cpu_flags, num_cores, require_packages

__all__ = ["run_checks"]


def run_checks(asked: Asked) -> Iterator[Check]:
    """Runs every check, the quick ones first; none of them downloads or writes, but for a drafter's times,
    which are kept as at a start.

    Args:
        asked: The model and the options of a server, for which the machine is checked.
    """
    model, device = asked.model, asked.device
    steps: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("python", _python),
        ("core", _core),
        ("packages", _packages),
        ("torch", lambda: _torch(device)),
        ("processor", _processor),
        ("memory", check_memory),
        ("limits", check_limits),
        ("gpu", lambda: check_gpu(device)),
        ("kernels", lambda: check_kernels(device)),
        ("cache", check_cache),
        ("state", lambda: check_state_dir(asked.state_dir)),
        ("model", lambda: _model(model)),
        ("exactness", lambda: check_exactness(_stored(model), device)),
        ("drafter", lambda: check_drafters(asked.drafters, _stored(model))),
        ("http", lambda: check_address("--http", asked.http)),
        ("grpc", lambda: check_address("--grpc", asked.grpc)),
    )
    for name, step in steps:
        try:
            yield step()
        except (OSError, SpectrieError, ImportError, ValueError) as error:
            yield Check(name, "fail", str(error))


def _python() -> Check:
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.platform != "linux":
        return Check("python", "note", f"{text}; only Linux x86_64 is tested")
    return Check("python", "ok", text)


def _core() -> Check:
    if util.find_spec("spectrie._core") is None:
        return Check("core", "fail", "the compiled module is missing: reinstall, or run make setup")
    from spectrie._core import __version__

    return Check("core", "ok", f"spectrie {__version__}")


def _packages() -> Check:
    try:
        require_packages()
    except ConfigError as error:
        # The router needs none of them.
        return Check("packages", "note", str(error))
    return Check("packages", "ok", "what runs models on a CPU")


def _torch(device: str) -> Check:
    if util.find_spec("torch") is None:
        text = "missing, so models run on the CPU at most: pip install 'spectrie[worker]' for GPUs"
        return Check("torch", "fail" if device == "cuda" else "note", text)
    return Check("torch", "ok", metadata.version("torch"))


def _processor() -> Check:
    cores = num_cores()
    if bf16_flags():
        return Check(
            "processor", "ok", f"{cores} cores, bfloat16 instructions: dtype auto is bfloat16"
        )
    if "avx2" in cpu_flags():
        return Check("processor", "ok", f"{cores} cores, AVX2: dtype auto is float32")
    return Check("processor", "note", f"{cores} cores, no AVX2 seen: float32, and slow")


def _folder(model: str) -> Path:
    return Path(model) if Path(model).exists() else entry(model)


def _stored(model: str) -> Path | None:
    folder = _folder(model)
    return folder if (folder / "config.json").is_file() else None


def _model(model: str) -> Check:
    folder = _folder(model)
    if not folder.exists():
        return Check("model", "note", f"{model} is not stored yet: spectrie models fetch {model}")
    if folder.is_dir() and not (folder / "config.json").is_file():
        return Check("model", "fail", f"{folder} has no config.json, so it is not a model")
    return Check("model", "ok", f"{model} in {folder.absolute()}")
