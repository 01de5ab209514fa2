"""Spectrie: an LLM inference server with exact, draft-model-free speculation."""
