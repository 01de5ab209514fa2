"""Options that tests of sampling share."""

from __future__ import annotations

from typing import Any

__all__ = ["EVERY_OPTION"]

EVERY_OPTION: dict[str, Any] = {
    "max_tokens": 40,
    "min_tokens": 5,
    "temperature": 0.9,
    "top_p": 0.95,
    "top_k": 60,
    "min_p": 0.01,
    "typical_p": 0.9,
    "frequency_penalty": 0.2,
    "presence_penalty": 0.1,
    "repetition_penalty": 1.1,
    "logit_bias": {7: 1.5, 9: -2.0},
    "bad_words": ["the", "def"],
    "logprobs": 5,
    "prompt_logprobs": 3,
    "seed": 11,
}
"""Every option of sampling at once, with bars that tiny models run into."""
