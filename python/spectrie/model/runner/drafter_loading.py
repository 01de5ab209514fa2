"""Puts a drafter beside a model that is being loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from spectrie import _core
from spectrie.errors import ConfigError, ModelError
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import CpuDecoder
from spectrie.model.decoder.layout import EMBEDDING, HEAD
from spectrie.model.drafters import Drafter, Target, layer_tensors, read_drafter
from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from spectrie.model.files.random_weights import open_weights
from spectrie.model.files.weights import Weights
from spectrie.model.runner.drafting import Drafting
from spectrie.model.runner.info import RunnerInfo
from spectrie.model.sources.resolution import resolve

__all__ = ["beside", "chosen_drafter", "page_bytes", "read_for"]


def chosen_drafter(name: str, folder: Path, device: str, ranks: int) -> Path | None:
    """Returns the folder of the drafter that an option names; None for none.

    Args:
        name: `off`, a folder, a model that must be fetched or converted first, as for `resolve`, `mtp` for the
            layer in the model's own folder, or `auto` for that layer if there is one and it can run.
        folder: The model.
        device: `cpu` or `cuda`.
        ranks: Processes that share the model.

    Raises:
        ConfigError: A drafter is asked for where none can run: on a GPU, or on several ranks.
        ModelError: The model cannot be read, lacks the layer that is asked for, or there is no such drafter.
    """
    can_run = device == "cpu" and ranks == 1
    if name == "off" or (name == "auto" and not can_run):
        return None
    if not can_run:
        where = "a GPU" if device != "cpu" else f"{ranks} processes"
        raise ConfigError(
            f"drafter is {name!r}, but drafters run on a CPU, in one process, and this model runs on "
            f"{where}: choose drafter 'off', or device 'cpu' with tensor_parallel 1"
        )
    if name not in ("auto", "mtp"):
        path = Path(name).expanduser()
        return path if path.is_dir() else _fetched(name)
    if layer_tensors(open_weights(folder, torch.device("cpu"))):
        return folder
    if name == "auto":
        return None
    raise ModelError(
        f"drafter is 'mtp', but {folder} has no layer for multi-token prediction: choose drafter 'off'"
    )


def _fetched(name: str) -> Path:
    try:
        return resolve(name).folder
    except ModelError as error:
        raise ModelError(f"cannot read the drafter {name}: {error}") from error


def read_for(
    folder: Path | None,
    target: Path,
    config: ModelConfig,
    weights: Weights,
    report: Callable[[str], None],
    *,
    is_asked: bool,
) -> Drafter | None:
    """Returns the drafter of a folder, read for the model of the folder `target`; None without a folder, or if it cannot be read and
    nobody asked for it.

    Raises:
        ModelError: It cannot be read, or does not fit the model.
    """
    if folder is None:
        return None
    report("reading the drafter")
    shape = (config.vocabulary_size, config.hidden_size)
    head = weights.take(EMBEDDING if config.tied_head else HEAD, shape)
    try:
        return read_drafter(folder, Target(config, head, target))
    except ModelError as error:
        if is_asked:
            raise
        report(f"without a drafter: {error}")
        return None


def page_bytes(drafter: Drafter | None, config: ModelConfig, dtype: torch.dtype) -> int:
    """Returns what a page takes for the drafter: keys, values, and a feature."""
    if drafter is None:
        return 0
    numbers = drafter.geometry.numbers_per_token * _core.CPU_PAGE_SIZE
    return (numbers + drafter.taps * config.hidden_size) * dtype.itemsize


def beside(
    decoder: object,
    folder: Path | None,
    drafter: Drafter | None,
    info: RunnerInfo,
    measurements: Measurements,
) -> Drafting | None:
    """Puts the drafter beside the decoder.

    Raises:
        ModelError: Its sizes do not fit, or there is no memory.
    """
    native = decoder.native if isinstance(decoder, CpuDecoder) else None
    if folder is None or drafter is None or native is None:
        return None
    try:
        return Drafting(
            native,
            drafter,
            info,
            name=folder.name,
            digest=model_hash(folder, measurements),
            max_rows=info.max_batch_rows,
        )
    except ValueError as error:
        raise ModelError(f"drafter {folder}: {error}") from error
