"""What stands before a token of which nothing else is known."""

from __future__ import annotations

from pathlib import Path

from spectrie.model.config.model_config import ModelConfig

__all__ = ["beginning_of"]

_TEXT = ":"
"""May stand before anything, in prose and in code. On the tuning split of `bench/draft` the model's top-8
after `:` and the token hold the next token in 43 % of cases (36 % after `<|endoftext|>`, 33 % after the
beginning of a turn, 19 % after nothing)."""


def beginning_of(folder: Path, config: ModelConfig) -> list[int]:
    """Ids that begin a text with a colon, as the model's tokenizer makes them.

    Without a tokenizer: the token that begins a text, else the first that ends one, else nothing.

    Raises:
        ModelError: The tokenizer's file cannot be used.
    """
    if (folder / "tokenizer.json").is_file():
        from spectrie import _core

        return _core.Tokenizer.from_folder(folder).encode(_TEXT, add_special_tokens=True)
    known = [config.bos_token_id, *config.eos_token_ids]
    return [token for token in known if token is not None][:1]
