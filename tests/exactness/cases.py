"""The requests whose answers must not depend on how they are run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from bench.support import prompts

__all__ = ["NEW_TOKENS", "NUM_PROMPTS", "Case", "cases", "share"]

PER_KIND = 8
NUM_PROMPTS = PER_KIND * len(prompts.KINDS)
NEW_TOKENS = 48

_SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 24},
        "steps": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
        "done": {"type": "boolean"},
    },
    "required": ["title", "steps", "done"],
    "additionalProperties": False,
}
_PENALTIES = {
    "temperature": 0.7,
    "frequency_penalty": 0.4,
    "presence_penalty": 0.3,
    "repetition_penalty": 1.1,
    "logit_bias": {198: -1.5, 28: 1.0},
}
FORMS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "seeded": {"temperature": 0.8, "top_p": 0.95},
    "penalties": _PENALTIES,
    "logprobs": {"temperature": 0.0, "logprobs": 5, "prompt_logprobs": 2},
    "schema": {"temperature": 0.6, "json_schema": _SCHEMA},
    "regex": {"temperature": 0.0, "regex": r"(step [0-9]: [a-z ]{4,40}\.\n){2,4}"},
    "choices": {"temperature": 0.9, "min_p": 0.02, "n": 4},
    "everything": {
        **_PENALTIES,
        "temperature": 0.9,
        "top_k": 60,
        "top_p": 0.97,
        "min_p": 0.005,
        "typical_p": 0.97,
        "min_tokens": 6,
        "stop_token_ids": [30],
        "bad_words": ["return", "however"],
        "logprobs": 3,
        "prompt_logprobs": 1,
        "regex": r"(?s)[ -~\n]+",
        "priority": 1,
        "n": 2,
    },
}
"""Options of each form of request."""

_EVERY = {"greedy": 1, "seeded": 1, "penalties": 4, "logprobs": 6, "schema": 6, "regex": 6}
_EVERY |= {"choices": 8, "everything": 8}
"""One prompt in so many is asked in a form."""


@dataclass(frozen=True, slots=True)
class Case:
    """One request.

    Attributes:
        id: Prompt and form, such as `HumanEval/13 greedy`.
        prompt: Text or chat.
        form: Key of `FORMS`.
        seed: Seed of the noise.
    """

    id: str
    prompt: prompts.Prompt
    form: str
    seed: int

    def options(self) -> dict[str, Any]:
        """Options of `LLM.generate` and `LLM.chat`."""
        options: dict[str, Any] = {
            "max_tokens": NEW_TOKENS,
            "seed": self.seed,
            "prediction": self.prompt.prediction,
            **FORMS[self.form],
        }
        if self.prompt.text is not None:
            # A stop text here and there: what lies after it must not count.
            options["stop"] = ["\nclass", "\nprint("]
        return options


def cases() -> list[Case]:
    """Every prompt greedy and seeded, some of them in each other form."""
    chosen = [prompt for kind in prompts.KINDS for prompt in prompts.load(kind, PER_KIND)]
    return [
        Case(f"{prompt.id} {form}", prompt, form, seed=1000 + index)
        for form, every in _EVERY.items()
        for index, prompt in enumerate(chosen)
        if index % every == 0
    ]


def share(part: int, num_parts: int, forms: Collection[str] = tuple(FORMS)) -> list[Case]:
    """A part of all cases that has each of these forms; all parts together have every case of them."""
    found = []
    for form in forms:
        of_form = [case for case in cases() if case.form == form]
        found += of_form[part % num_parts :: num_parts] or [of_form[part % len(of_form)]]
    return found
