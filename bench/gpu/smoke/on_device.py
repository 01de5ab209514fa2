"""A small model on the device, opened once for the answers that are compared with the CPU's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bench.gpu.check import NeedsDevice, Settings
from bench.gpu.clock import clock_of
from bench.gpu.simulated import simulated_gpu, small_start

if TYPE_CHECKING:
    from spectrie import LLM, Completion

__all__ = ["Model", "OnDevice", "answer_of"]

_TEXT = "A list of names: the first name, the second name, the third name, "


@dataclass(frozen=True, slots=True)
class Model:
    """A model whose answers are compared.

    Attributes:
        name: What its items are called after.
        folder: Folder or file.
        dtype: Number format on the device.
        tolerance: Difference of log-probabilities that rounding may cause: the mean over the prompt,
            and the largest in the answer.
        max_tokens: Length of an answer.
        repeats: How often the prompt repeats its text.
    """

    name: str
    folder: str
    dtype: str
    tolerance: float
    max_tokens: int
    repeats: int = 1


class OnDevice:
    """A model that is opened on the device when it is first used, and not again if that fails.

    Attributes:
        model: Which.
        open_seconds: What opening it took.
    """

    def __init__(self, settings: Settings, model: Model, opened: contextlib.ExitStack) -> None:
        """Takes the stack that closes it."""
        self.model = model
        self.clock = clock_of(settings.dry)
        self.open_seconds = 0.0
        self._dry = settings.dry
        self._opened = opened
        self._has_failed = False

    @cached_property
    def expected(self) -> Completion:
        """The CPU's answer, with log-probabilities."""
        with _opened(self.model, device="cpu", dtype="float32") as llm:
            return answer_of(llm, self.model, speculation=False)

    @cached_property
    def llm(self) -> LLM:
        """The model, on the device.

        Raises:
            NeedsDevice: It could not be opened before.
        """
        if self._has_failed:
            raise NeedsDevice("the model could not be opened")
        self._has_failed = True
        if self._dry:
            self._opened.enter_context(simulated_gpu(interpreted=True))
            self._opened.enter_context(small_start((1, 4)))
        started = self.clock.seconds()
        llm = self._opened.enter_context(_opened(self.model, dtype=self.model.dtype, device="cuda"))
        self.open_seconds = self.clock.seconds() - started
        self._has_failed = False
        return llm


def answer_of(
    llm: LLM,
    model: Model,
    prediction: list[int] | None = None,
    *,
    speculation: bool,
    temperature: float = 0.0,
    logprobs: bool = True,
) -> Completion:
    """An answer; with log-probabilities the host chooses its tokens, by logits that travel there."""
    return llm.generate(
        _TEXT * model.repeats,
        max_tokens=model.max_tokens,
        temperature=temperature,
        seed=11,
        ignore_eos=True,
        logprobs=0 if logprobs else None,
        prompt_logprobs=0 if logprobs else None,
        prediction=prediction,
        speculation=speculation,
    )


@contextlib.contextmanager
def _opened(model: Model, **options: Any) -> Iterator[LLM]:
    from spectrie import LLM

    # A draft is free here, so that some are bought whatever the clock says.
    with LLM(model.folder, bigrams="off", drafting_cost_ms=0.0, num_pages=256, **options) as llm:
        yield llm
