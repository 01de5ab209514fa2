"""Reads GGUF files and converts them to the Hugging Face layout."""
