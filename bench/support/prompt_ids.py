"""Token ids of the shared prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.support.prompts import Prompt
    from spectrie import LLM

__all__ = ["prompt_ids"]


def prompt_ids(llm: LLM, prompt: Prompt) -> list[int]:
    """Those of a prompt's text, or of its messages in the model's chat template."""
    if prompt.messages is None:
        return list(llm.tokenizer.encode(prompt.text or ""))
    return list(llm.tokenizer.encode(llm.tokenizer.apply_chat_template(prompt.messages)))
