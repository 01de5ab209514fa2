"""Prompts and predictions as token ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spectrie.errors import FieldViolation, InvalidArgument
from spectrie.types import Message

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["PromptReader"]


class PromptReader:
    """Turns what a caller gives into token ids, as the server does.

    Special tokens, such as BOS, are added to a text and left to the template of a chat.

    Args:
        tokenizer: The model's.
    """

    def __init__(self, tokenizer: _core.Tokenizer) -> None:
        self._tokenizer = tokenizer

    def prompt_ids(
        self,
        prompt: str | None,
        prompt_token_ids: Sequence[int] | None,
        messages: Sequence[Message] | None,
    ) -> list[int]:
        """Token ids of a prompt, given in exactly one of three forms.

        Raises:
            InvalidArgument: Not exactly one form was given, or it is not what it should be.
        """
        given = [g for g in (prompt, prompt_token_ids, messages) if g is not None]
        if len(given) != 1:
            raise _refused("prompt", "give exactly one of prompt, prompt_token_ids and messages")
        if messages is not None:
            return self._tokenizer.encode(self._chat_text(messages), add_special_tokens=False)
        if prompt_token_ids is not None:
            return list(prompt_token_ids)
        if not isinstance(prompt, str):
            raise _refused("prompt", f"given {type(prompt).__name__}, allowed text")
        return self._tokenizer.encode(prompt, add_special_tokens=True)

    def prediction_ids(self, prediction: str | Path | Sequence[int] | None) -> list[int] | None:
        """Token ids of a prediction: text, token ids, or the path of a text file.

        Raises:
            InvalidArgument: The file cannot be read.
        """
        if prediction is None:
            return None
        if isinstance(prediction, Path):
            try:
                prediction = prediction.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise _refused("prediction", f"{prediction}: {error}") from error
        if isinstance(prediction, str):
            return self._tokenizer.encode(prediction, add_special_tokens=False)
        return list(prediction)

    def _chat_text(self, messages: Sequence[Message]) -> str:
        for index, message in enumerate(messages):
            for key in ("role", "content"):
                value = message.get(key)
                if not isinstance(value, str):
                    raise _refused(f"messages[{index}].{key}", f"given {value!r}, allowed text")
        if not messages:
            raise _refused("messages", "given none, allowed 1 or more")
        try:
            return self._tokenizer.apply_chat_template([dict(message) for message in messages])
        except ValueError as error:
            raise _refused("messages", str(error)) from error


def _refused(field: str, description: str) -> InvalidArgument:
    return InvalidArgument(
        f"{field}: {description}", field_violations=(FieldViolation(field, description),)
    )
