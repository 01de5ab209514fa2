"""Checks of the options of one request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spectrie.errors import FieldViolation, InvalidArgument

__all__ = ["Checker"]

MAX_STOP_TEXTS = 16
MAX_STOP_TEXT_BYTES = 256
MAX_LOGIT_BIAS_ENTRIES = 1024
MAX_BAD_WORDS = 64
MAX_BAD_WORD_BYTES = 128
MAX_BAD_WORD_IDS = 32


class Checker:
    """Reads options and gathers every violation, so that one answer names them all.

    An option that is absent, or None, has its default.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.violations: list[FieldViolation] = []

    def refuse(self, field: str, description: str) -> None:
        self.violations.append(FieldViolation(field, description))

    def number(
        self, field: str, default: float, low: float, high: float, *, open_low: bool = False
    ) -> float:
        value = self._options.get(field)
        if value is None:
            return default
        edge = "above" if open_low else "from"
        allowed = f"a number {edge} {low:g} up to {high:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(field, f"given {value!r}, allowed {allowed}")
            return default
        inside = low < value <= high if open_low else low <= value <= high
        if not (math.isfinite(value) and inside):
            self.refuse(field, f"given {value}, allowed {allowed}")
            return default
        return float(value)

    def integer(self, field: str, default: int, low: int, high: int) -> int:
        value = self.optional_integer(field, low, high)
        return default if value is None else value

    def optional_integer(self, field: str, low: int, high: int) -> int | None:
        value = self._options.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(field, f"given {value!r}, allowed a whole number from {low} to {high}")
            return None
        return value

    def flag(self, field: str, default: bool) -> bool:
        value = self._options.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(field, f"given {value!r}, allowed True or False")
            return default
        return value

    def ids(self, field: str, ids: Sequence[int], vocabulary_size: int) -> list[int]:
        for index, token_id in enumerate(ids):
            if isinstance(token_id, bool) or not isinstance(token_id, int):
                self.refuse(f"{field}[{index}]", f"given {token_id!r}, allowed a token id")
                return []
            if not 0 <= token_id < vocabulary_size:
                allowed = f"0 to {vocabulary_size - 1}"
                self.refuse(f"{field}[{index}]", f"given {token_id}, allowed {allowed}")
                return []
        return list(ids)

    def stop_texts(self) -> tuple[str, ...]:
        stop = self._options.get("stop")
        texts = (stop,) if isinstance(stop, str) else tuple(stop or ())
        if len(texts) > MAX_STOP_TEXTS:
            self.refuse("stop", f"given {len(texts)} texts, allowed at most {MAX_STOP_TEXTS}")
        for index, text in enumerate(texts):
            if not isinstance(text, str) or not 0 < len(text.encode()) <= MAX_STOP_TEXT_BYTES:
                allowed = f"text of 1 to {MAX_STOP_TEXT_BYTES} bytes"
                self.refuse(f"stop[{index}]", f"given {text!r}, allowed {allowed}")
        return texts

    def logit_bias(self, vocabulary_size: int) -> dict[int, float]:
        bias = dict(self._options.get("logit_bias") or {})
        if len(bias) > MAX_LOGIT_BIAS_ENTRIES:
            allowed = f"at most {MAX_LOGIT_BIAS_ENTRIES}"
            self.refuse("logit_bias", f"given {len(bias)} entries, allowed {allowed}")
        self.ids("logit_bias", list(bias), vocabulary_size)
        for token_id, value in bias.items():
            if not -100 <= value <= 100:
                self.refuse(f"logit_bias[{token_id}]", f"given {value}, allowed -100 to 100")
        return bias

    def bad_words(self, encode: Callable[[str], list[int]]) -> list[list[int]]:
        """Token ids of each word as it stands and after a space, each sequence once."""
        words = self._options.get("bad_words")
        words = [words] if isinstance(words, str) else list(words or ())
        if len(words) > MAX_BAD_WORDS:
            self.refuse("bad_words", f"given {len(words)} texts, allowed at most {MAX_BAD_WORDS}")
            return []
        sequences: dict[tuple[int, ...], None] = {}
        for index, word in enumerate(words):
            if not isinstance(word, str) or not 0 < len(word.encode()) <= MAX_BAD_WORD_BYTES:
                allowed = f"text of 1 to {MAX_BAD_WORD_BYTES} bytes"
                self.refuse(f"bad_words[{index}]", f"given {word!r}, allowed {allowed}")
                continue
            for text in (word, f" {word}"):
                ids = tuple(encode(text))
                if not 0 < len(ids) <= MAX_BAD_WORD_IDS:
                    given = f"given {text!r} of {len(ids)} tokens"
                    self.refuse(f"bad_words[{index}]", f"{given}, allowed 1 to {MAX_BAD_WORD_IDS}")
                    break
                sequences[ids] = None
        return [list(ids) for ids in sequences]

    def finish(self) -> None:
        """Raises `InvalidArgument` with every violation, if there is one."""
        if self.violations:
            first = self.violations[0]
            raise InvalidArgument(
                f"{first.field}: {first.description}", field_violations=tuple(self.violations)
            )
