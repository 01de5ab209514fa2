"""Answers and options that `spectrie.Client`, `spectrie.AsyncClient` and `spectrie.LLM` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypedDict

__all__ = [
    "Completion",
    "Delta",
    "FinishReason",
    "Message",
    "ModelInfo",
    "Source",
    "SpeculationOptions",
    "SpeculationStats",
    "Timing",
    "TokenLogprobs",
    "Usage",
]

FinishReason = Literal["stop", "length"]
"""Why an answer ended: end-of-sequence token or stop text, or `max_tokens` or the context's end."""


class Source(IntEnum):
    """Where an emitted token came from; numbered as on the wire."""

    MODEL = 1
    PREDICTION = 2
    REQUEST = 3
    SHARED = 4
    CORPUS = 5
    RECYCLED = 6
    GRAMMAR = 7
    HEAD = 8
    DRAFT_MODEL = 9

    @property
    def label(self) -> str:
        """The name used in metrics and tables, such as `request`."""
        return self.name.lower()


class Message(TypedDict):
    """One turn of a chat: `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SpeculationOptions:
    """Speculation settings of one request; they never change the answer.

    Attributes:
        enabled: Whether to speculate; None takes the server's setting.
        max_draft_tokens: Maximum draft tokens per step, 0 to 63; None takes the server's limit.
        mode: `auto`, `off`, `bfs`, `prob`, `tiers`, or with a drafter `eagle2` or `chain`; None takes the
            server's setting.
        learn: Whether the server may learn from this request's text.
    """

    enabled: bool | None = None
    max_draft_tokens: int | None = None
    mode: Literal["auto", "off", "bfs", "prob", "tiers", "eagle2", "chain"] | None = None
    learn: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer.

    Attributes:
        prompt_tokens: Length of the prompt.
        completion_tokens: Emitted tokens, including those of the stop text and the end token.
        cached_tokens: Prompt tokens whose keys and values were already cached.
        accepted_prediction_tokens: Emitted tokens equal to the prediction's next one; None without
            a prediction.
        rejected_prediction_tokens: The prediction's other tokens; None without a prediction.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class SpeculationStats:
    """What speculation did for one answer.

    Attributes:
        verify_steps: Forward passes after the prefill.
        drafted_tokens: Draft tokens that were verified.
        accepted_tokens: Draft tokens that the model accepted.
        accepted_by_source: Accepted tokens by source label; they sum to `accepted_tokens`.
    """

    verify_steps: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)

    @property
    def tokens_per_step(self) -> float:
        """Emitted tokens per forward pass after the prefill; 0 without such a pass."""
        if self.verify_steps == 0:
            return 0.0
        return 1.0 + self.accepted_tokens / self.verify_steps

    @property
    def accepted_per_step(self) -> float:
        """Accepted draft tokens per forward pass after the prefill; 0 without such a pass."""
        return self.accepted_tokens / self.verify_steps if self.verify_steps else 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one answer inside the server, in nanoseconds."""

    queue_ns: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The model's own log-probabilities at one token, as natural logarithms.

    They are taken before bias, penalties, masks and temperature, and can be minus infinity.

    Attributes:
        token_id: The token.
        logprob: Its log-probability.
        top: Log-probabilities of the likeliest tokens by id, likeliest first, as many as requested.
    """

    token_id: int
    logprob: float
    top: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delta:
    """Newly verified tokens of one choice of a stream.

    Attributes:
        text: New text; empty while a character or a stop text is incomplete.
        token_ids: The new tokens.
        sources: The source of each token, if requested.
        index: Which of the `n` choices this belongs to.
        logprobs: Log-probabilities of each token, if requested.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    sources: tuple[Source, ...] = ()
    index: int = 0
    logprobs: tuple[TokenLogprobs, ...] | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One whole answer.

    Attributes:
        text: The answer without its stop text.
        token_ids: Its tokens, including those of the stop text and the end-of-sequence token.
        finish_reason: `stop` or `length`.
        usage: Token counts.
        speculation: What speculation did.
        stop_text: The stop text that ended the answer, if any.
        stop_token_id: The end-of-sequence or stop token that ended it, if any.
        sources: The source of each token, if requested.
        timing: Durations inside the server.
        index: Which of the `n` choices this is.
        model: Name of the model that answered.
        request_id: The server's name for the request.
        seed: The seed in use, given or random; send it again to get the same tokens.
        logprobs: Log-probabilities of each token, if requested.
        prompt_logprobs: Log-probabilities of each token of the prompt, None for the first, if
            requested; on the first choice only.
        numerics_changed: Whether the server lost the worker and went on at one of another numeric
            fingerprint: the same seed need not give the same tokens again.
        other_choices: The remaining choices of the same prompt; on the first choice only.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    speculation: SpeculationStats
    stop_text: str | None = None
    stop_token_id: int | None = None
    sources: tuple[Source, ...] = ()
    timing: Timing = field(default_factory=Timing)
    index: int = 0
    model: str | None = None
    request_id: str | None = None
    seed: int | None = None
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    numerics_changed: bool = False
    other_choices: tuple[Completion, ...] = ()

    @property
    def choices(self) -> tuple[Completion, ...]:
        """This choice and the remaining ones, in order."""
        return (self, *self.other_choices)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A served model.

    Attributes:
        name: What to pass as `model`.
        max_context: Maximum length of prompt plus answer, in tokens.
        vocabulary_size: Number of token ids.
        workers: Number of workers that serve it now.
        numeric_fingerprint: Workers of equal fingerprint give equal tokens, except on a GPU.
    """

    name: str
    max_context: int
    vocabulary_size: int
    workers: int
    numeric_fingerprint: str
