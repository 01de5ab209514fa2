"""Answers of small models through `spectrie.LLM` on the device, with speculation off and on.

Their log-probabilities are compared with those of the compiled forward on the CPU: a wrong mask, page or
kernel is off by far more than rounding is.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from bench.gpu.check import Item, NeedsDevice, Settings
from bench.gpu.clock import clock_of
from bench.gpu.models.tiny_model import write_tiny_model
from bench.gpu.simulated import simulated_gpu

if TYPE_CHECKING:
    from spectrie import LLM, Completion
    from spectrie.model.plan import StepPlan
    from spectrie.model.runner.costs import CostTimer

__all__ = ["Model", "items"]

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


def items(settings: Settings) -> Iterator[Item]:
    """Two items a model: speculation off, and on with the CPU's answer as prediction."""
    os.environ["SPECTRIE_CACHE"] = str(Path(settings.scratch) / "cache")
    for model in _models(settings):
        # Closed when the items of the next model are asked for.
        with contextlib.ExitStack() as opened:
            on_device = _OnDevice(settings, model, opened)
            for speculation in (False, True):
                name = f"{model.name} {model.dtype}, speculation {'on' if speculation else 'off'}"
                yield Item(name, partial(_compare, on_device, speculation))
    if settings.model is None or settings.dry:
        why = "the interpreter is too slow for it" if settings.dry else "it is not at hand: --model"
        yield Item("real", partial(_skip, why))


def _skip(why: str) -> dict[str, Any]:
    raise NeedsDevice(why)


def _models(settings: Settings) -> Iterator[Model]:
    tiny = str(write_tiny_model(Path(settings.scratch) / "tiny", max_context=256))
    # Torch on a CPU is off by 1e-5 in float32; in bfloat16 by 0.065, and by 0.044 for SmolLM2-135M.
    if settings.dry:
        yield Model("tiny", tiny, "float32", tolerance=1e-3, max_tokens=6)
        return
    yield Model("tiny", tiny, "float32", tolerance=1e-3, max_tokens=32)
    yield Model("tiny", tiny, "bfloat16", tolerance=0.3, max_tokens=32)
    if settings.model is not None:
        yield Model("real", settings.model, "bfloat16", tolerance=0.2, max_tokens=64, repeats=20)


class _OnDevice:
    """A model that is opened on the device when it is first used."""

    def __init__(self, settings: Settings, model: Model, opened: contextlib.ExitStack) -> None:
        self.model = model
        self.clock = clock_of(settings.dry)
        self.open_seconds = 0.0
        self._dry = settings.dry
        self._opened = opened

    @cached_property
    def expected(self) -> Completion:
        """The CPU's answer."""
        with _opened(self.model, device="cpu", dtype="float32") as llm:
            return _answer(llm, self.model, speculation=False)

    @cached_property
    def llm(self) -> LLM:
        """The model, on the device."""
        if self._dry:
            self._opened.enter_context(_dry_run())
        started = self.clock.seconds()
        llm = self._opened.enter_context(_opened(self.model, dtype=self.model.dtype, device="cuda"))
        self.open_seconds = self.clock.seconds() - started
        return llm


def _compare(on_device: _OnDevice, speculation: bool) -> dict[str, Any]:
    model, clock = on_device.model, on_device.clock
    expected, llm = on_device.expected, on_device.llm
    started = clock.seconds()
    prediction = list(expected.token_ids) if speculation else None
    answer = _answer(llm, model, prediction, speculation=speculation)
    ended = clock.seconds()
    values = {
        "tokens": len(answer.token_ids),
        "equal_to_cpu": _common(answer.token_ids, expected.token_ids),
        "verify_steps": answer.speculation.verify_steps,
        "drafted_tokens": answer.speculation.drafted_tokens,
        "accepted_tokens": answer.speculation.accepted_tokens,
        # A prompt has unlikely tokens, whose log-probabilities are rounded most.
        "prompt_difference": statistics.mean(
            _gaps(answer.prompt_logprobs, expected.prompt_logprobs)
        ),
        "answer_difference": max(_gaps(answer.logprobs, expected.logprobs)),
        "open_seconds": round(on_device.open_seconds, 3),
        "answer_seconds": round(ended - started, 3),
        "fingerprint": llm.numeric_fingerprint,
    }
    _check(model, speculation, values)
    return values


def _check(model: Model, speculation: bool, values: dict[str, Any]) -> None:
    """Raises AssertionError naming everything that is wrong with an answer."""
    wrong = []
    if values["tokens"] != model.max_tokens:
        wrong.append(f"{values['tokens']} tokens, expected {model.max_tokens}")
    for part in ("prompt", "answer"):
        difference = values[f"{part}_difference"]
        if not difference <= model.tolerance:
            wrong.append(
                f"log-probabilities of the {part} differ from the CPU's by {difference:.3g}, "
                f"allowed {model.tolerance:g}"
            )
    if speculation and not values["accepted_tokens"]:
        wrong.append("no draft was accepted, although the prediction is the model's own answer")
    if not speculation and values["drafted_tokens"]:
        wrong.append(f"{values['drafted_tokens']} tokens were drafted with speculation off")
    if wrong:
        raise AssertionError(f"{'; '.join(wrong)}; {values}")


@contextlib.contextmanager
def _dry_run() -> Iterator[None]:
    """No device, few sizes of steps and few costs: the interpreter is slow."""
    costs, check = "spectrie.model.runner.costs", "spectrie.model.runner.self_check"
    with (
        simulated_gpu(interpreted=True),
        mock.patch("spectrie.model.launch.capacity.BUCKETS", (1, 8)),
        mock.patch("spectrie_kernels.attention.arrays._PROGRAMS", 4),
        mock.patch(f"{costs}._GPU_COST_ROWS", (1, 4)),
        mock.patch(f"{costs}.CostTimer._times", _run_once),
        mock.patch(f"{check}._PROMPT", 6),
        mock.patch(f"{check}._PIECES", (5,)),
        mock.patch(f"{check}._COMPANY", (1,)),
    ):
        yield


def _run_once(timer: CostTimer, plans: list[StepPlan], seconds: float) -> list[float]:
    """In place of a measurement: one forward each, a millisecond."""
    for plan in plans:
        timer._time_of(plan)
    return [1.0] * len(plans)


@contextlib.contextmanager
def _opened(model: Model, **options: Any) -> Iterator[LLM]:
    from spectrie import LLM

    # A draft is free here, so that some are bought whatever the clock says.
    with LLM(model.folder, bigrams="off", drafting_cost_ms=0.0, num_pages=256, **options) as llm:
        yield llm


def _answer(
    llm: LLM, model: Model, prediction: list[int] | None = None, *, speculation: bool
) -> Completion:
    return llm.generate(
        _TEXT * model.repeats,
        max_tokens=model.max_tokens,
        temperature=0.0,
        ignore_eos=True,
        logprobs=0,
        prompt_logprobs=0,
        prediction=prediction,
        speculation=speculation,
    )


def _common(ids: tuple[int, ...], others: tuple[int, ...]) -> int:
    """Tokens up to the first that differ."""
    pairs = enumerate(zip(ids, others, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(ids), len(others)))


def _gaps(ours: Any, others: Any) -> list[float]:
    """Absolute differences of log-probabilities, up to the first token that differs, that one included.

    There two tokens are almost as likely, or one of the forwards is wrong: their own probabilities tell.
    """
    gaps = []
    for one, other in zip(ours or (), others or (), strict=False):
        if one is None or other is None:  # nothing comes before the first token
            continue
        gaps.append(abs(one.logprob - other.logprob))
        if one.token_id != other.token_id:
            break
    # None is no agreement.
    return gaps or [math.inf]
