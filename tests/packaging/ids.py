"""`python ids.py MODEL`: what a model answers in this process, as JSON; the Python of another processor runs it too."""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

from spectrie import LLM

PROMPTS = ("def hello world", "the a of to is it that was on as", "return self with None")
TOKENS = 64
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "drawn": {"temperature": 0.9, "top_p": 0.8},
}


def answers(model: str, dtype: str) -> dict[str, Any]:
    """The ids of each prompt, one after the other, by how they are drawn, and the name of the arithmetic."""
    # `auto` would take another dtype on another processor.
    with LLM(model, dtype=dtype, device="cpu", threads=2, num_pages=64) as llm:
        found: dict[str, Any] = {"fingerprint": llm.numeric_fingerprint}
        for name, way in WAYS.items():
            options = way | {"max_tokens": TOKENS, "ignore_eos": True}
            found[name] = [
                one
                for seed, prompt in enumerate(PROMPTS)
                for one in llm.generate(prompt, seed=seed, **options).token_ids
            ]
    return found


if __name__ == "__main__":
    found = {dtype: answers(sys.argv[1], dtype) for dtype in ("float32", "bfloat16")}
    print(json.dumps({"machine": platform.machine(), "found": found}))
