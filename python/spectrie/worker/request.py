"""Options of one request in process: their checks, and the engine's request they make."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectrie.errors import FieldViolation, InvalidArgument
from spectrie.options import GenerateOptions, check_names
from spectrie.types import SpeculationOptions
from spectrie.worker.defaults import SamplingDefaults

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["ModelLimits", "RequestPlan", "build_request"]

MAX_STOP_TEXTS = 16
MAX_STOP_TEXT_BYTES = 256
MAX_STOP_TOKEN_IDS = 64
MAX_LOGIT_BIAS_ENTRIES = 1024
MAX_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What the model allows.

    Attributes:
        vocabulary_size: Token ids are below this.
        max_context: Longest prompt plus answer, in tokens.
        speculation: Whether rows are exact in company, without which nothing may be drafted.
        defaults: What absent sampling options take.
    """

    vocabulary_size: int
    max_context: int
    speculation: bool
    defaults: SamplingDefaults


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """A checked request.

    Attributes:
        request: What the engine takes.
        stop: Texts that end the answer.
        seed: The seed in use, given or drawn.
        num_prompt_tokens: Length of the prompt.
        num_prediction_tokens: Length of the prediction; None without one.
        skip_special_tokens: Whether special tokens are left out of the text.
        with_sources: Whether the answer says where each token came from.
        timeout_s: Seconds after which the request fails; None for never.
    """

    request: _core.Request
    stop: tuple[str, ...]
    seed: int
    num_prompt_tokens: int
    num_prediction_tokens: int | None
    skip_special_tokens: bool
    with_sources: bool
    timeout_s: float | None


class _Checker:
    """Reads options and gathers every violation, so that one answer names them all."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.violations: list[FieldViolation] = []

    def refuse(self, field: str, description: str) -> None:
        self.violations.append(FieldViolation(field, description))

    def number(
        self, field: str, default: float, low: float, high: float, *, open_low: bool = False
    ) -> float:
        value = self._options.get(field)
        if value is None:
            return default
        edge = "above" if open_low else "from"
        allowed = f"a number {edge} {low:g} up to {high:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(field, f"given {value!r}, allowed {allowed}")
            return default
        inside = low < value <= high if open_low else low <= value <= high
        if not (math.isfinite(value) and inside):
            self.refuse(field, f"given {value}, allowed {allowed}")
            return default
        return float(value)

    def integer(self, field: str, default: int, low: int, high: int) -> int:
        value = self._options.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(field, f"given {value!r}, allowed a whole number from {low} to {high}")
            return default
        return value

    def flag(self, field: str, default: bool) -> bool:
        value = self._options.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(field, f"given {value!r}, allowed True or False")
            return default
        return value

    def ids(self, field: str, ids: Sequence[int], vocabulary_size: int) -> list[int]:
        for index, token_id in enumerate(ids):
            if isinstance(token_id, bool) or not isinstance(token_id, int):
                self.refuse(f"{field}[{index}]", f"given {token_id!r}, allowed a token id")
                return []
            if not 0 <= token_id < vocabulary_size:
                allowed = f"0 to {vocabulary_size - 1}"
                self.refuse(f"{field}[{index}]", f"given {token_id}, allowed {allowed}")
                return []
        return list(ids)

    def stop_texts(self) -> tuple[str, ...]:
        stop = self._options.get("stop")
        texts = (stop,) if isinstance(stop, str) else tuple(stop or ())
        if len(texts) > MAX_STOP_TEXTS:
            self.refuse("stop", f"given {len(texts)} texts, allowed at most {MAX_STOP_TEXTS}")
        for index, text in enumerate(texts):
            if not isinstance(text, str) or not 0 < len(text.encode()) <= MAX_STOP_TEXT_BYTES:
                allowed = f"text of 1 to {MAX_STOP_TEXT_BYTES} bytes"
                self.refuse(f"stop[{index}]", f"given {text!r}, allowed {allowed}")
        return texts

    def logit_bias(self, vocabulary_size: int) -> dict[int, float]:
        bias = dict(self._options.get("logit_bias") or {})
        if len(bias) > MAX_LOGIT_BIAS_ENTRIES:
            allowed = f"at most {MAX_LOGIT_BIAS_ENTRIES}"
            self.refuse("logit_bias", f"given {len(bias)} entries, allowed {allowed}")
        self.ids("logit_bias", list(bias), vocabulary_size)
        for token_id, value in bias.items():
            if not -100 <= value <= 100:
                self.refuse(f"logit_bias[{token_id}]", f"given {value}, allowed -100 to 100")
        return bias

    def finish(self) -> None:
        """Raises `InvalidArgument` with every violation, if there is one."""
        if self.violations:
            first = self.violations[0]
            raise InvalidArgument(
                f"{first.field}: {first.description}", field_violations=tuple(self.violations)
            )


def build_request(
    handle: int,
    prompt_ids: Sequence[int],
    prediction_ids: Sequence[int] | None,
    limits: ModelLimits,
    options: GenerateOptions,
) -> RequestPlan:
    """Checks the options of a request and gives the engine's form of it.

    Args:
        handle: The request's number in the engine.
        prompt_ids: The prompt, at least one token.
        prediction_ids: Tokens of `options["prediction"]`; None without one.
        limits: What the model allows.
        options: As the caller gave them.

    Raises:
        InvalidArgument: With every field that is not allowed.
        TypeError: An option that does not exist.
    """
    from spectrie import _core

    check_names(options)
    checker = _Checker(options)
    prompt = checker.ids("prompt_token_ids", prompt_ids, limits.vocabulary_size)
    max_tokens = _max_tokens(checker, len(prompt_ids), limits.max_context)
    if prediction_ids is not None and len(prediction_ids) > limits.max_context:
        allowed = f"at most {limits.max_context}"
        checker.refuse("prediction", f"given {len(prediction_ids)} tokens, allowed {allowed}")
    stop = checker.stop_texts()
    seed = checker.integer("seed", secrets.randbits(63), 0, MAX_SEED)
    defaults = limits.defaults
    speculation, max_draft_tokens, learn = _speculation(
        checker, options.get("speculation"), limits.speculation
    )
    stop_ids = options.get("stop_token_ids") or ()
    if len(stop_ids) > MAX_STOP_TOKEN_IDS:
        allowed = f"at most {MAX_STOP_TOKEN_IDS}"
        checker.refuse("stop_token_ids", f"given {len(stop_ids)} ids, allowed {allowed}")
    timeout_s = None
    if options.get("timeout") is not None:
        timeout_s = checker.number("timeout", 1.0, 0.0, 1e9, open_low=True)
    arguments: dict[str, Any] = {
        "handle": handle,
        "prompt_ids": prompt,
        "prediction_ids": checker.ids("prediction", prediction_ids or (), limits.vocabulary_size),
        "namespace": options.get("namespace") or "default",
        "learn": learn,
        "temperature": checker.number("temperature", defaults.temperature, 0.0, 100.0),
        "top_p": checker.number("top_p", defaults.top_p, 0.0, 1.0, open_low=True),
        "top_k": checker.integer("top_k", defaults.top_k, 0, 2**31 - 1),
        "min_p": checker.number("min_p", defaults.min_p, 0.0, 1.0),
        "frequency_penalty": checker.number("frequency_penalty", 0.0, -2.0, 2.0),
        "presence_penalty": checker.number("presence_penalty", 0.0, -2.0, 2.0),
        "repetition_penalty": checker.number(
            "repetition_penalty", defaults.repetition_penalty, 0.0, 10.0, open_low=True
        ),
        "logit_bias": checker.logit_bias(limits.vocabulary_size),
        "seed": seed,
        "max_tokens": max_tokens,
        "min_tokens": checker.integer("min_tokens", 0, 0, max(max_tokens, 0)),
        "stop_token_ids": checker.ids("stop_token_ids", stop_ids, limits.vocabulary_size),
        "ignore_eos": checker.flag("ignore_eos", False),
        "deadline_s": None if timeout_s is None else time.monotonic() + timeout_s,
        "priority": checker.integer("priority", 0, -(2**31), 2**31 - 1),
        "speculation": speculation,
        "max_draft_tokens": max_draft_tokens,
    }
    skip_special_tokens = checker.flag("skip_special_tokens", True)
    with_sources = checker.flag("sources", False)
    checker.finish()
    return RequestPlan(
        request=_core.Request(**arguments),
        stop=stop,
        seed=seed,
        num_prompt_tokens=len(prompt_ids),
        num_prediction_tokens=None if prediction_ids is None else len(prediction_ids),
        skip_special_tokens=skip_special_tokens,
        with_sources=with_sources,
        timeout_s=timeout_s,
    )


def _max_tokens(checker: _Checker, num_prompt_tokens: int, max_context: int) -> int:
    if num_prompt_tokens == 0:
        checker.refuse("prompt", "given no tokens, allowed 1 or more")
        return 1
    rest = max_context - num_prompt_tokens
    if rest < 1:
        checker.refuse(
            "prompt",
            f"given {num_prompt_tokens} tokens, allowed at most {max_context - 1}: "
            f"the context holds {max_context}",
        )
        return 1
    max_tokens = checker.integer("max_tokens", rest, 1, 2**31 - 1)
    if max_tokens > rest:
        checker.refuse(
            "max_tokens",
            f"given {max_tokens} after a prompt of {num_prompt_tokens} tokens, allowed at most "
            f"{rest}: the context holds {max_context}",
        )
    return max_tokens


def _speculation(
    checker: _Checker, wanted: bool | SpeculationOptions | None, allowed: bool
) -> tuple[str | None, int | None, bool]:
    """Mode, cap and whether to learn; None is the engine's setting."""
    if isinstance(wanted, bool):
        wanted = SpeculationOptions(enabled=wanted)
    if wanted is None:
        wanted = SpeculationOptions()
    if not isinstance(wanted, SpeculationOptions):
        checker.refuse("speculation", f"given {wanted!r}, allowed bool or SpeculationOptions")
        return None, None, True
    cap = wanted.max_draft_tokens
    if cap is not None and not 0 <= cap <= 63:
        checker.refuse("speculation.max_draft_tokens", f"given {cap}, allowed 0 to 63")
    if wanted.mode not in (None, "auto", "off", "bfs", "prob"):
        given = f"given {wanted.mode!r}"
        checker.refuse("speculation.mode", f"{given}, allowed auto, off, bfs or prob")
    if wanted.enabled is False or not allowed:
        return "off", cap, wanted.learn
    mode = "auto" if wanted.enabled and wanted.mode is None else wanted.mode
    return mode, cap, wanted.learn
