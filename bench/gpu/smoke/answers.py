"""Answers of small models through `spectrie.LLM` on the device, with speculation off and on.

Their log-probabilities are compared with those of the compiled forward on the CPU: a wrong mask, page or
kernel is off by far more than rounding is. Tokens that the device chooses itself, as it does for nearly all
requests, are compared with those that the host chooses by the same logits.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.check import Item, NeedsDevice, Settings
from bench.gpu.models.tiny_model import write_tiny_model
from bench.gpu.smoke.on_device import Model, OnDevice, answer_of

__all__ = ["items"]

_TEMPERATURES = (0.0, 0.8)


def items(settings: Settings) -> Iterator[Item]:
    """Six items a model: the CPU's answer, the start, speculation off and on with the CPU's answer as
    prediction, and tokens that the device chooses, likeliest and drawn.

    What may take long is an item of its own: the limit of an item is meant for what hangs.
    """
    os.environ["SPECTRIE_CACHE"] = str(Path(settings.scratch) / "cache")
    for model in _models(settings):
        # Closed when the items of the next model are asked for.
        with contextlib.ExitStack() as opened:
            on_device = OnDevice(settings, model, opened)
            name = f"{model.name} {model.dtype}"
            yield Item(f"{name}, on the CPU", partial(_expect, on_device))
            yield Item(f"{name}, start", partial(_start, on_device))
            for speculation in (False, True):
                of_two = f"{name}, speculation {'on' if speculation else 'off'}"
                yield Item(of_two, partial(_compare, on_device, speculation))
            for temperature in _TEMPERATURES:
                chosen = partial(_compare_chosen, on_device, temperature)
                yield Item(f"{name}, tokens of the device at {temperature}", chosen)
    if settings.model is None or settings.dry:
        why = "the interpreter is too slow for it" if settings.dry else "it is not at hand: --model"
        yield Item("real", partial(_skip, why))


def _skip(why: str) -> dict[str, Any]:
    raise NeedsDevice(why)


def _models(settings: Settings) -> Iterator[Model]:
    tiny = str(write_tiny_model(Path(settings.scratch) / "tiny", max_context=256))
    # Torch on a CPU is off by 1e-5 in float32; in bfloat16 by 0.065, and by 0.044 for SmolLM2-135M.
    if settings.dry:
        yield Model("tiny", tiny, "float32", tolerance=1e-3, max_tokens=4)
        return
    yield Model("tiny", tiny, "float32", tolerance=1e-3, max_tokens=32)
    yield Model("tiny", tiny, "bfloat16", tolerance=0.3, max_tokens=32)
    if settings.model is not None:
        yield Model("real", settings.model, "bfloat16", tolerance=0.2, max_tokens=64, repeats=20)


def _expect(on_device: OnDevice) -> dict[str, Any]:
    return {"tokens": len(on_device.expected.token_ids)}


def _start(on_device: OnDevice) -> dict[str, Any]:
    """Reads the model, records its steps, checks its bits and measures its costs."""
    llm = on_device.llm
    return {
        "open_seconds": round(on_device.open_seconds, 3),
        "fingerprint": llm.numeric_fingerprint,
    }


def _compare(on_device: OnDevice, speculation: bool) -> dict[str, Any]:
    model, clock = on_device.model, on_device.clock
    expected, llm = on_device.expected, on_device.llm
    started = clock.seconds()
    prediction = list(expected.token_ids) if speculation else None
    answer = answer_of(llm, model, prediction, speculation=speculation)
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


def _compare_chosen(on_device: OnDevice, temperature: float) -> dict[str, Any]:
    """Answers whose steps send no logits: heads are recorded too, and undrafted steps start early."""
    model, clock, llm = on_device.model, on_device.clock, on_device.llm
    answer = answer_of(llm, model, speculation=False, temperature=temperature)
    expected = answer.token_ids
    is_exact = "/exact/" in llm.numeric_fingerprint
    values: dict[str, Any] = {"exact": is_exact}
    wrong = []
    for speculation in (False, True):
        name = "on" if speculation else "off"
        started = clock.seconds()
        chosen = answer_of(
            llm,
            model,
            list(expected) if speculation else None,
            speculation=speculation,
            temperature=temperature,
            logprobs=False,
        )
        common = _common(chosen.token_ids, expected)
        values[name] = {
            "tokens": len(chosen.token_ids),
            "equal_to_host": common,
            "accepted_tokens": chosen.speculation.accepted_tokens,
            "answer_seconds": round(clock.seconds() - started, 3),
        }
        if len(chosen.token_ids) != model.max_tokens:
            wrong.append(f"{name}: {len(chosen.token_ids)} tokens, expected {model.max_tokens}")
        elif is_exact and common < len(expected):
            wrong.append(f"{name}: token {common} is not the host's, by the same logits")
        if speculation and not chosen.speculation.accepted_tokens:
            wrong.append("no draft was accepted, although the prediction is the host's answer")
    if wrong:
        raise AssertionError(f"{'; '.join(wrong)}; {values}")
    return values


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
