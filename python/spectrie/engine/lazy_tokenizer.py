"""A model's tokenizer, opened when it is first needed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["LazyTokenizer"]


class LazyTokenizer:
    """The tokenizer of a model folder; safe to share between threads.

    Opening takes a third of a second for 49,152 tokens: not for a thread that others wait for.

    Args:
        folder: Model folder in the Hugging Face layout.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._tokenizer: _core.Tokenizer | None = None

    @property
    def is_open(self) -> bool:
        """Whether `open` returns at once."""
        return self._tokenizer is not None

    def open(self) -> _core.Tokenizer:
        """Returns the tokenizer.

        Raises:
            ModelError: The folder has none, or one that cannot be used.
        """
        from spectrie import _core

        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = _core.Tokenizer.from_folder(str(self._folder))
            return self._tokenizer
