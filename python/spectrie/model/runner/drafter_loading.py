"""Puts drafters beside a model that is being loaded.

A drafter that is named must be there and run. One that `auto` finds must not keep a model from being served: what
is wrong with it becomes the reason why there is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from spectrie import _core
from spectrie.errors import ConfigError, ModelError
from spectrie.model import gpu
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import CpuDecoder
from spectrie.model.decoder.layout import EMBEDDING, HEAD
from spectrie.model.drafters import (
    CpuDrafts,
    Drafter,
    Drafts,
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

__all__ = ["DrafterChoice", "DrafterLoading", "chosen_drafters", "found_drafter"]

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


def chosen_drafters(
    names: Sequence[str], folder: Path, device: str, ranks: int, measurements: Measurements
) -> list[DrafterChoice]:
    """Returns the drafters that an option names, in its order, each once.

    Args:
        names: Of each: a folder, the name of a head that ships, a model that must be fetched or converted first, as for
            `resolve`, `mtp` for the layer in the model's own folder, or `auto` for that layer, else the head that
            ships for these weights, if there is one and it can run. None, or `off` alone, for no drafter.
        folder: The model.
        device: `cpu` or `cuda`.
        ranks: Processes that share the model.
        measurements: Keeps hashes.

    Raises:
        ConfigError: A drafter is named where none can run: on several GPUs, or on one without Triton; or there are
            too many, or others beside `off`.
        ModelError: The model cannot be read, lacks the layer that is named, or there is no such drafter.
    """
    names = list(dict.fromkeys(names))
    if "off" in names and len(names) > 1:
        others = ", ".join(name for name in names if name != "off")
        raise ConfigError(f"drafter is 'off' and {others}: choose 'off', or the others")
    if names == ["off"]:
        return []
    if len(names) > _core.MAX_DRAFTERS:
        raise ConfigError(
            f"{len(names)} drafters are named: {', '.join(names)}; allowed: up to {_core.MAX_DRAFTERS}"
        )
    where = None
    if device != "cpu" and ranks > 1:
        where = f"runs on {ranks} GPUs"
    elif device != "cpu" and gpu.compiler() is None:
        where = "runs on a GPU without the compiler of its kernels, Triton"
    choices: dict[Path | None, DrafterChoice] = {}
    for name in names:
        choice = _chosen(name, folder, where, measurements)
        at = None if choice.folder is None else choice.folder.resolve()
        # What was named counts, wherever `auto` finds it too.
        if at not in choices or (choice.is_asked and not choices[at].is_asked):
            choices[at] = choice
    return list(choices.values())


def _chosen(
    name: str, folder: Path, where: str | None, measurements: Measurements
) -> DrafterChoice:
    if name == "auto":
        return _found(folder, where, measurements)
    if where is not None:
        raise ConfigError(
            f"drafter is {name!r}, but drafters run on a CPU or on one GPU with Triton, and this model {where}: "
            "choose drafter 'off', or device 'cpu'"
        )
    if name != "mtp":
        return DrafterChoice(_named(name))
    if not _has_layer(folder):
        raise ModelError(
            f"drafter is 'mtp', but {folder} has no layer for multi-token prediction: choose drafter 'off'"
        )
    return DrafterChoice(folder)


def found_drafter(folder: Path) -> DrafterChoice:
    """Returns what `auto` means for a model on a CPU or one GPU.

    Args:
        folder: The model.

    Raises:
        ModelError: The model cannot be read.
    """
    return _found(folder, None, open_measurements())


def _found(folder: Path, where: str | None, measurements: Measurements) -> DrafterChoice:
    """What `auto` means, where a drafter runs or none does."""
    if _has_layer(folder):
        found, what = folder, "the model's layer for multi-token prediction"
    else:
        head = head_for(model_hash(folder, measurements))
        if head.folder is None:
            why = "the model has no layer for multi-token prediction, and no head ships for its weights"
            return DrafterChoice(None, False, "; ".join([why, *head.damaged]))
        found, what = head.folder, f"the head {head.folder.name} that ships for it"
    if where is not None:
        why = f"{what} runs on a CPU or on one GPU with Triton, and this model {where}"
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


class OnDevice(Protocol):
    """A model on a GPU."""

    def add_drafter(self, drafter: Drafter, /) -> None: ...
    def drop_drafter(self, drafter: Drafter, /) -> None: ...
    def drafter_bytes(self, drafter: Drafter, max_rows: int, /) -> int: ...


class DrafterLoading:
    """The drafters of a model that is being loaded."""

    def __init__(self, choices: Sequence[DrafterChoice], report: Callable[[str], None]) -> None:
        """Reads nothing yet.

        Args:
            choices: Which ones.
            report: Receives one line per stage.
        """
        self._choices = choices
        self._report = report
        self._read: list[tuple[DrafterChoice, Drafter]] = []
        self._parts: OnDevice | None = None
        reasons = (choice.why_none for choice in choices)
        self._why_none = next((why for why in reasons if why is not None), None)

    @property
    def why_none(self) -> str | None:
        """Why there is none, where none was named."""
        return None if self._read else self._why_none

    def read(self, target: Path, config: ModelConfig, weights: Weights) -> None:
        """Reads them for the model of the folder `target`.

        Raises:
            ModelError: One was named and cannot be read, or does not fit the model.
        """
        found = [(one, one.folder) for one in self._choices if one.folder is not None]
        if not found:
            return
        self._report("reading the drafter" if len(found) == 1 else "reading the drafters")
        shape = (config.vocabulary_size, config.hidden_size)
        head = weights.take(EMBEDDING if config.tied_head else HEAD, shape)
        for choice, folder in found:
            try:
                drafter = read_drafter(folder, Target(config, head, target))
            except ModelError as error:
                self._go_without(choice, error)
            else:
                self._read.append((choice, drafter))
        for choice in self._choices:
            # Where others draft, nothing else says that `auto` found none.
            if self._read and choice.why_none is not None:
                self._report(f"drafter auto: {choice.why_none}")

    def sized(self, size: Callable[[int], _Sized], config: ModelConfig, itemsize: int) -> _Sized:
        """Returns the size of a cache with room for the drafters' keys, values and features.

        Args:
            size: Returns it by the bytes that a page takes besides the model's.
            config: The model.
            itemsize: Bytes of its numbers.

        Raises:
            ConfigError: There is no room for the model, or for a drafter that was named.
            ModelError: Likewise.
        """
        try:
            return size(self._page_bytes(config, itemsize))
        except (ConfigError, ModelError) as error:
            for choice in [choice for choice, _ in self._read if not choice.is_asked]:
                self._go_without(choice, error)
            return size(self._page_bytes(config, itemsize))

    def _page_bytes(self, config: ModelConfig, itemsize: int) -> int:
        """Bytes that the drafters take of a page."""
        numbers = 0
        for _, drafter in self._read:
            numbers += drafter.geometry.numbers_per_token * _core.CPU_PAGE_SIZE
            numbers += drafter.taps * config.hidden_size
        return numbers * itemsize

    def onto(self, parts: OnDevice) -> None:
        """Copies their weights to a GPU.

        Args:
            parts: The model there.

        Raises:
            ModelError: One was named, and does not run on a GPU.
        """
        self._parts = parts
        for choice, drafter in list(self._read):
            try:
                parts.add_drafter(drafter)
            except ModelError as error:
                self._go_without(choice, error)
            except (ValueError, RuntimeError) as error:
                # A size that no kernel has, or no memory.
                self._go_without(choice, ModelError(f"drafter {choice.folder}: {error}"))

    def taken(self, parts: OnDevice, max_rows: int) -> int:
        """Returns what they take on the GPU beside their weights and pages, in bytes: 0 for those that were given up.

        Args:
            parts: The model there.
            max_rows: Most rows of a forward.
        """
        return sum(parts.drafter_bytes(drafter, max_rows) for _, drafter in self._read)

    def beside(
        self,
        decoder: CpuDecoder | Sequence[Drafts],
        info: RunnerInfo,
        measurements: Measurements,
    ) -> list[Drafting]:
        """Puts them beside the decoder.

        Args:
            decoder: A decoder on a CPU, or the drafters as they stand beside one on a GPU.
            info: Facts about the model.
            measurements: Keeps hashes.

        Raises:
            ModelError: One was named, and its sizes do not fit, or there is no memory.
        """
        beside: list[Drafting] = []
        names: list[str] = []
        for index, (choice, drafter) in enumerate(list(self._read)):
            if choice.folder is None:
                continue
            name = _other_than(names, choice.folder.name)
            try:
                drafts = _drafts_of(decoder, index, drafter, info)
                digest = model_hash(choice.folder, measurements)
                one = Drafting(drafts, drafter, info, name=name, digest=digest)
            except ValueError as error:
                self._go_without(choice, ModelError(f"drafter {choice.folder}: {error}"))
            else:
                beside.append(one)
                names.append(name)
        return beside

    def _go_without(self, choice: DrafterChoice, error: ConfigError | ModelError) -> None:
        if choice.is_asked:
            raise error
        for other, drafter in self._read:
            if other is choice and self._parts is not None:
                # Its memory is the model's again.
                self._parts.drop_drafter(drafter)
        self._read = [one for one in self._read if one[0] is not choice]
        self._why_none = str(error)
        name = "" if choice.folder is None else f" {choice.folder.name}"
        self._report(f"without the drafter{name}: {error}")


def _drafts_of(
    decoder: CpuDecoder | Sequence[Drafts], index: int, drafter: Drafter, info: RunnerInfo
) -> Drafts:
    """A drafter beside its decoder, or the one at `index` as it stands there already."""
    if not isinstance(decoder, CpuDecoder):
        return decoder[index]
    return CpuDrafts(
        decoder.core, drafter, max_context=info.max_context, max_rows=info.max_batch_rows
    )


def _other_than(names: Sequence[str], name: str) -> str:
    """A name that tells a drafter from others: its folder's, with a number where another has that."""
    for number in itertools.count(2):
        if name not in names:
            break
        name = f"{name.rsplit('#', 1)[0]}#{number}"
    return name
