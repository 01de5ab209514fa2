"""The real model, loaded once for all that runs on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from spectrie.engine.native_steps import NativeSteps
from spectrie.engine.python_steps import PythonSteps
from spectrie.llm import LLM
from spectrie.model import load_runner
from spectrie.model.machine import bf16_flags

if TYPE_CHECKING:
    from spectrie import _core
    from spectrie.model import Runner

__all__ = [
    "AMPLE_PAGES",
    "MAX_CONTEXT",
    "SCARCE_PAGES",
    "Gate",
    "Runners",
    "SharedRunner",
    "converted",
    "native",
]

AMPLE_PAGES = 1024
SCARCE_PAGES = 32
"""512 tokens: enough for the longest request alone, not for four together."""

MAX_CONTEXT = SCARCE_PAGES * 16

OPENED_WITHIN_S = 300.0


def native(dtype: str) -> str:
    """A number format, or `float32` where this CPU does not compute it natively."""
    return dtype if dtype != "bfloat16" or bf16_flags() else "float32"


def converted(node_ids: Sequence[str]) -> str | None:
    """What a summary of tests says of those named after bfloat16 that ran as float32; None without any."""
    named = [one for one in node_ids if one.startswith("tests/exactness/") and "bfloat16" in one]
    if not named or native("bfloat16") == "bfloat16":
        return None
    return (
        f"{len(named)} bfloat16 cases ran as float32: this CPU has neither AVX512-BF16 nor AMX-BF16"
    )


class SharedRunner:
    """A loaded model of which a combination sees `num_pages` pages, and which outlives it.

    What the pages hold from before is never read, as in any run: a row is written before it is read.
    """

    def __init__(self, runner: Runner, num_pages: int) -> None:
        self._runner = runner
        self.num_pages = num_pages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def close(self) -> None:
        """Leaves the model to the next combination."""


class Gate:
    """Keeps models that are opened within it from running until it is opened."""

    def __init__(self) -> None:
        self.most_requests = 0
        """Most requests that ran at once so far."""
        self._open = threading.Event()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Holds for models that are opened in this context."""
        with ExitStack() as stack:
            for kind in (NativeSteps, PythonSteps):
                stack.enter_context(mock.patch.object(kind, "run", self._gated(kind.run)))
            counting = self._counting(LLM._deliver)
            stack.enter_context(mock.patch.object(LLM, "_deliver", counting))
            yield

    @property
    def is_open(self) -> bool:
        """Whether steps run."""
        return self._open.is_set()

    def open(self) -> None:
        """Lets steps run. Until then requests gather, however slowly they are submitted."""
        self._open.set()

    def _gated(self, run: Callable[..., None]) -> Callable[..., None]:
        def gated(steps: Any, rest_s: float, rested: bool) -> None:
            if not self._open.wait(OPENED_WITHIN_S):
                raise TimeoutError(f"no `open` in {OPENED_WITHIN_S:g} seconds")
            run(steps, rest_s, rested)

        return gated

    def _counting(self, deliver: Callable[..., None]) -> Callable[..., None]:
        def counting(llm: LLM, output: _core.StepOutput) -> None:
            self.most_requests = max(self.most_requests, llm.load().running)
            deliver(llm, output)

        return counting


class Runners:
    """The model in each number format and on several ranks, loaded when first asked for.

    A process can be a rank of one model at a time: another one on several ranks ends the last.

    Args:
        model: Folder of the model.
        drafter: Folder of a drafter, which stands beside it on one rank.
    """

    def __init__(self, model: Path, drafter: Path | None = None) -> None:
        self.model = model
        self._drafter: Path | str = drafter or "off"
        self._single: dict[str, Runner] = {}
        self._ranks: tuple[tuple[str, int], Runner] | None = None

    def get(self, dtype: str, ranks: int) -> Runner:
        """The model in a number format, on a number of ranks."""
        if ranks == 1:
            if dtype not in self._single:
                self._single[dtype] = self._load(dtype, 1)
            return self._single[dtype]
        if self._ranks is None or self._ranks[0] != (dtype, ranks):
            self.close()
            self._ranks = (dtype, ranks), self._load(dtype, ranks)
        return self._ranks[1]

    def close(self) -> None:
        """Ends the ranks."""
        if self._ranks is not None:
            self._ranks[1].close()
            self._ranks = None

    def _load(self, dtype: str, ranks: int) -> Runner:
        return load_runner(
            self.model,
            dtype=dtype,
            threads=1,
            num_pages=AMPLE_PAGES,
            max_context=MAX_CONTEXT,
            tensor_parallel=ranks,
            drafter=self._drafter,
        )
