"""Puts a drafter beside a model that is being loaded.

A drafter that is named must be there and run. One that `auto` finds must not keep a model from being served: what
is wrong with it becomes the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from spectrie import _core
from spectrie.errors import ConfigError, ModelError
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import CpuDecoder
from spectrie.model.decoder.layout import EMBEDDING, HEAD
from spectrie.model.drafters import (
    Drafter,
    Target,
    head_for,
    layer_tensors,
    read_drafter,
    shipped_heads,
)
from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements, open_measurements
from spectrie.model.files.opening import open_weights
from spectrie.model.files.weights import Weights
from spectrie.model.runner.drafting import Drafting
from spectrie.model.runner.info import RunnerInfo
from spectrie.model.sources.resolution import resolve

__all__ = ["DrafterChoice", "DrafterLoading", "chosen_drafter", "found_drafter"]

_Sized = TypeVar("_Sized")


@dataclass(frozen=True, slots=True)
class DrafterChoice:
    """The drafter that an option means.

    Attributes:
        folder: Where it lies; None for none.
        is_asked: Whether it was named, so that loading fails where it cannot be used.
        why_none: Why `auto` takes none.
    """

    folder: Path | None = None
    is_asked: bool = True
    why_none: str | None = None


def chosen_drafter(
    name: str, folder: Path, device: str, ranks: int, measurements: Measurements
) -> DrafterChoice:
    """Returns the drafter that an option names.

    Args:
        name: `off`, a folder, the name of a head that ships, a model that must be fetched or converted first, as for
            `resolve`, `mtp` for the layer in the model's own folder, or `auto` for that layer, else the head that
            ships for these weights, if there is one and it can run.
        folder: The model.
        device: `cpu` or `cuda`.
        ranks: Processes that share the model.
        measurements: Keeps hashes.

    Raises:
        ConfigError: A drafter is named where none can run: on a GPU, or on several ranks.
        ModelError: The model cannot be read, lacks the layer that is named, or there is no such drafter.
    """
    if name == "off":
        return DrafterChoice()
    where = None
    if device != "cpu":
        where = "a GPU"
    elif ranks > 1:
        where = f"{ranks} processes"
    if name == "auto":
        return _found(folder, where, measurements)
    if where is not None:
        raise ConfigError(
            f"drafter is {name!r}, but drafters run on a CPU, in one process, and this model runs on "
            f"{where}: choose drafter 'off', or device 'cpu' with tensor_parallel 1"
        )
    if name != "mtp":
        return DrafterChoice(_named(name))
    if not _has_layer(folder):
        raise ModelError(
            f"drafter is 'mtp', but {folder} has no layer for multi-token prediction: choose drafter 'off'"
        )
    return DrafterChoice(folder)


def found_drafter(folder: Path) -> DrafterChoice:
    """Returns what `auto` means for a model on a CPU, in one process.

    Args:
        folder: The model.

    Raises:
        ModelError: The model cannot be read.
    """
    return _found(folder, None, open_measurements())


def _found(folder: Path, where: str | None, measurements: Measurements) -> DrafterChoice:
    """What `auto` means, on a CPU or where no drafter runs."""
    if _has_layer(folder):
        found, what = folder, "the model's layer for multi-token prediction"
    else:
        head = head_for(model_hash(folder, measurements))
        if head.folder is None:
            why = "the model has no layer for multi-token prediction, and no head ships for its weights"
            return DrafterChoice(None, False, "; ".join([why, *head.damaged]))
        found, what = head.folder, f"the head {head.folder.name} that ships for it"
    if where is not None:
        why = f"{what} runs on a CPU, in one process, and this model runs on {where}"
        return DrafterChoice(None, False, why)
    return DrafterChoice(found, False)


def _has_layer(folder: Path) -> bool:
    return bool(layer_tensors(open_weights(folder, "cpu")))


def _named(name: str) -> Path:
    """The folder of a drafter that is named: the user's own comes first, as for a model."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    shipped = shipped_heads()
    if name in shipped:
        return shipped[name]
    try:
        return resolve(name).folder
    except ModelError as error:
        listed = ", ".join(shipped) or "none"
        raise ModelError(
            f"cannot read the drafter {name}: {error}; heads that ship: {listed}"
        ) from error


class DrafterLoading:
    """The drafter of a model that is being loaded."""

    def __init__(self, choice: DrafterChoice, report: Callable[[str], None]) -> None:
        """Reads nothing yet.

        Args:
            choice: Which one.
            report: Receives one line per stage.
        """
        self._choice = choice
        self._report = report
        self._drafter: Drafter | None = None
        self.why_none = choice.why_none
        """Why there is none, where none was named."""

    def read(self, target: Path, config: ModelConfig, weights: Weights) -> None:
        """Reads it for the model of the folder `target`.

        Raises:
            ModelError: It was named and cannot be read, or does not fit the model.
        """
        folder = self._choice.folder
        if folder is None:
            return
        self._report("reading the drafter")
        shape = (config.vocabulary_size, config.hidden_size)
        head = weights.take(EMBEDDING if config.tied_head else HEAD, shape)
        try:
            self._drafter = read_drafter(folder, Target(config, head, target))
        except ModelError as error:
            self._go_without(error)

    def sized(self, size: Callable[[int], _Sized], config: ModelConfig, itemsize: int) -> _Sized:
        """Returns the size of a cache with room for the drafter's keys, values and features.

        Args:
            size: Returns it by the bytes that a page takes besides the model's.
            config: The model.
            itemsize: Bytes of its numbers.

        Raises:
            ConfigError: There is no room for the model, or for a drafter that was named.
            ModelError: Likewise.
        """
        drafter = self._drafter
        if drafter is None:
            return size(0)
        numbers = drafter.geometry.numbers_per_token * _core.CPU_PAGE_SIZE
        try:
            return size((numbers + drafter.taps * config.hidden_size) * itemsize)
        except (ConfigError, ModelError) as error:
            self._go_without(error)
            return size(0)

    def beside(
        self, decoder: object, info: RunnerInfo, measurements: Measurements
    ) -> Drafting | None:
        """Puts it beside the decoder.

        Raises:
            ModelError: It was named, and its sizes do not fit, or there is no memory.
        """
        folder, drafter = self._choice.folder, self._drafter
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
            self._go_without(ModelError(f"drafter {folder}: {error}"))
            return None

    def _go_without(self, error: ConfigError | ModelError) -> None:
        if self._choice.is_asked:
            raise error
        self._drafter = None
        self.why_none = str(error)
        self._report(f"without a drafter: {error}")
