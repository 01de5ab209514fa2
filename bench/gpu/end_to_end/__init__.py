"""Whole answers through `spectrie.LLM` on a device: the same in every way, and how fast."""
