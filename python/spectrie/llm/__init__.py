"""`spectrie.LLM`: the engine in your own process."""

from __future__ import annotations

from spectrie.llm.llm import LLM

__all__ = ["LLM"]
