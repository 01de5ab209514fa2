"""Options of one request in process: their checks, and the engine's request they make."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectrie.engine.grammars import Grammars
from spectrie.llm.constraint import read_constraint
from spectrie.llm.defaults import SamplingDefaults
from spectrie.llm.option_checks import Checker
from spectrie.options import GenerateOptions, check_names
from spectrie.types import SpeculationOptions

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["ModelLimits", "RequestPlan", "build_requests"]

MAX_STOP_TOKEN_IDS = 64
MAX_SEED = 2**64 - 1
MAX_CHOICES = 8
MAX_TOP_LOGPROBS = 20


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
        choice: Which of the request's choices this is.
        stop: Texts that end the answer.
        seed: The seed in use, given or drawn.
        num_prompt_tokens: Length of the prompt.
        num_prediction_tokens: Length of the prediction; None without one.
        skip_special_tokens: Whether special tokens are left out of the text.
        with_sources: Whether the answer says where each token came from.
        timeout_s: Seconds after which the request fails; None for never.
    """

    request: _core.Request
    choice: int
    stop: tuple[str, ...]
    seed: int
    num_prompt_tokens: int
    num_prediction_tokens: int | None
    skip_special_tokens: bool
    with_sources: bool
    timeout_s: float | None


def build_requests(
    handles: Callable[[], int],
    prompt_ids: Sequence[int],
    prediction_ids: Sequence[int] | None,
    encode: Callable[[str], list[int]],
    grammars: Grammars,
    limits: ModelLimits,
    options: GenerateOptions,
    num_choices: int = 1,
) -> list[RequestPlan]:
    """Checks the options of a request and gives the engine's form of each of its choices.

    The log-probabilities of the prompt are the same for all choices: the first one tells them.

    Args:
        handles: Gives each choice its number in the engine.
        prompt_ids: The prompt, at least one token.
        prediction_ids: Tokens of `options["prediction"]`; None without one.
        encode: Gives the token ids of a text within an answer.
        grammars: Compiles what the answer is held to.
        limits: What the model allows.
        options: As the caller gave them.
        num_choices: Answers to give, 1 to 8.

    Raises:
        InvalidArgument: With every field that is not allowed.
        TypeError: An option that does not exist.
    """
    from spectrie import _core

    check_names(options)
    checker = Checker(options)
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
    if isinstance(num_choices, bool) or num_choices not in range(1, MAX_CHOICES + 1):
        checker.refuse(
            "n", f"given {num_choices!r}, allowed a whole number from 1 to {MAX_CHOICES}"
        )
    arguments: dict[str, Any] = {
        "prompt_ids": prompt,
        "prediction_ids": checker.ids("prediction", prediction_ids or (), limits.vocabulary_size),
        "namespace": options.get("namespace") or "default",
        "learn": learn,
        "temperature": checker.number("temperature", defaults.temperature, 0.0, 100.0),
        "top_p": checker.number("top_p", defaults.top_p, 0.0, 1.0, open_low=True),
        "top_k": checker.integer("top_k", defaults.top_k, 0, 2**31 - 1),
        "min_p": checker.number("min_p", defaults.min_p, 0.0, 1.0),
        "typical_p": checker.number("typical_p", 1.0, 0.0, 1.0, open_low=True),
        "frequency_penalty": checker.number("frequency_penalty", 0.0, -2.0, 2.0),
        "presence_penalty": checker.number("presence_penalty", 0.0, -2.0, 2.0),
        "repetition_penalty": checker.number(
            "repetition_penalty", defaults.repetition_penalty, 0.0, 10.0, open_low=True
        ),
        "logit_bias": checker.logit_bias(limits.vocabulary_size),
        "bad_words": checker.bad_words(encode),
        "logprobs": checker.optional_integer("logprobs", 0, MAX_TOP_LOGPROBS),
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
    prompt_logprobs = checker.optional_integer("prompt_logprobs", 0, MAX_TOP_LOGPROBS)
    constraint = read_constraint(checker, options)
    checker.finish()
    if constraint is not None:
        try:
            arguments["grammar"] = grammars.compile(constraint)
        except _core.EngineError as error:
            checker.refuse(constraint.kind, str(error).removeprefix(f"{constraint.kind} "))
    checker.finish()
    return [
        RequestPlan(
            request=_core.Request(
                handle=handles(),
                seed=_core.choice_seed(seed, choice),
                prompt_logprobs=None if choice else prompt_logprobs,
                **arguments,
            ),
            choice=choice,
            stop=stop,
            seed=seed,
            num_prompt_tokens=len(prompt_ids),
            num_prediction_tokens=None if prediction_ids is None else len(prediction_ids),
            skip_special_tokens=skip_special_tokens,
            with_sources=with_sources,
            timeout_s=timeout_s,
        )
        for choice in range(num_choices)
    ]


def _max_tokens(checker: Checker, num_prompt_tokens: int, max_context: int) -> int:
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
    checker: Checker, wanted: bool | SpeculationOptions | None, allowed: bool
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
    if wanted.mode not in (None, "auto", "off", "bfs", "prob", "tiers"):
        given = f"given {wanted.mode!r}"
        checker.refuse("speculation.mode", f"{given}, allowed auto, off, bfs, prob or tiers")
    if wanted.enabled is False or not allowed:
        return "off", cap, wanted.learn
    mode = "auto" if wanted.enabled and wanted.mode is None else wanted.mode
    return mode, cap, wanted.learn
