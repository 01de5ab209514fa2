"""`spectrie.LLM`: the engine in your own process."""

from __future__ import annotations

from spectrie.model.machine import require_packages

# Before what needs them is imported: the message says how to install them.
require_packages()

from spectrie.llm.llm import LLM  # noqa: E402

__all__ = ["LLM"]
