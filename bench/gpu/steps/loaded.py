"""A model of a size with drawn weights, loaded once for the items that measure it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import torch

from bench.gpu.check import Settings
from bench.gpu.clock import clock_of
from bench.gpu.models.random_model import write_random_model
from bench.gpu.models.shapes import MODELS, TINY, ModelShape
from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.model import Runner, load_runner

__all__ = [
    "LoadedModel",
    "WriteHead",
    "dry_options",
    "folder_of",
    "head_of",
    "measured_models",
    "on_device",
]


class WriteHead(Protocol):
    """Writes a head for a model, and returns the folder."""

    def __call__(self, folder: Path, shape: ModelShape, *, dtype: torch.dtype) -> Path: ...


def measured_models(settings: Settings) -> tuple[ModelShape, ...]:
    """8B, which has goals, then 1.5B and the others of Qwen2.5."""
    if settings.dry:
        return (TINY,)
    _, half, small, large, largest = MODELS
    return largest, small, large, half


@contextmanager
def on_device(settings: Settings) -> Iterator[None]:
    """The device, or what stands in for one; costs that are measured stay out of the user's files."""
    with ExitStack() as stack:
        cache = str(Path(settings.scratch) / "cache")
        stack.enter_context(mock.patch.dict(os.environ, SPECTRIE_CACHE=cache))
        if settings.dry:
            stack.enter_context(simulated_gpu())
            stack.enter_context(small_start())
        yield


def folder_of(settings: Settings, model: ModelShape) -> Path:
    """The model's folder, written where it is missing."""
    folder = Path(settings.scratch) / model.name
    context = 512 if settings.dry else 32_768
    return write_random_model(folder, model, max_context=context)


def head_of(settings: Settings, model: ModelShape, what: str, write: WriteHead) -> Path:
    """The folder of a head of drawn weights for a model, called `what`, written where it is missing."""
    folder = Path(settings.scratch) / f"{model.name}-{what}"
    if not folder.exists():
        write(folder, model, dtype=torch.float32 if settings.dry else torch.bfloat16)
    return folder


def dry_options(settings: Settings) -> dict[str, Any]:
    """Options of a model where there is no device: the plain forms of its kernels keep bytes in float32
    at best."""
    return {"num_pages": 256, "dtype": "float32"} if settings.dry else {}


class LoadedModel:
    """A runner with one arithmetic, from the first use until `close`.

    Attributes:
        stages: Seconds at which loading reported each of its stages.
        load_seconds: What loading took.
    """

    def __init__(self, settings: Settings, model: ModelShape, arithmetic: str) -> None:
        self.model = model
        self._settings = settings
        # Falls to fast where the device is not exact, so that the rest can be measured all the same.
        self._arithmetic = "auto" if arithmetic == "exact" else arithmetic
        self._runner: Runner | None = None
        self.stages: list[tuple[str, float]] = []
        self._left: list[int] = []
        self.load_seconds = 0.0

    @property
    def runner(self) -> Runner:
        """The runner, loaded and warm."""
        if self._runner is None:
            clock = clock_of(self._settings.dry)
            folder = folder_of(self._settings, self.model)
            started = clock.seconds()

            def note(line: str) -> None:
                self.stages.append((line, round(clock.seconds() - started, 3)))
                self._left.append(self._free_bytes())

            runner = load_runner(
                folder,
                device="cuda",
                gpu_arithmetic=self._arithmetic,
                progress=note,
                **dry_options(self._settings),
            )
            note("warming up")
            runner.warm_up()
            note("ready")
            self.load_seconds = clock.seconds() - started
            self._runner = runner
        return self._runner

    def seconds_from(self, beginning: str) -> float | None:
        """What loading took from the stage whose line begins so; None if there was none."""
        ends = self.stages[-1][1]
        return next((ends - at for line, at in self.stages if line.startswith(beginning)), None)

    def bytes_of(self, beginning: str) -> int | None:
        """What the device had less at the end of the stage whose line begins so than at its beginning;
        None if there was none."""
        places = [i for i, (line, _) in enumerate(self.stages) if line.startswith(beginning)]
        return self._left[places[0]] - self._left[places[0] + 1] if places else None

    def _free_bytes(self) -> int:
        if self._settings.dry:
            return 0
        torch.cuda.synchronize()
        return int(torch.cuda.mem_get_info()[0])

    def close(self) -> None:
        """Gives its memory back."""
        if self._runner is not None:
            self._runner.close()
        self._runner = None
        gc.collect()
        if not self._settings.dry:
            torch.cuda.empty_cache()
