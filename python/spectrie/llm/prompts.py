"""What a call of `LLM` was given, as one prompt or a list of them; the resolver says what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from spectrie.types import Message

__all__ = ["Prompt", "given_chats", "given_prompts"]

Prompt = tuple[str | None, Sequence[int] | None, Sequence[Message] | None]
"""Text, token ids or messages: exactly one of them."""


def given_prompts(text: object, token_ids: object) -> tuple[list[Prompt], bool]:
    """The prompts of `generate`, and whether it is one alone.

    NumPy arrays and tensors of ids count as lists. What is neither one prompt nor a list is one, for
    the resolver to refuse; so are texts and ids together.
    """
    token_ids = _as_list(token_ids)
    if token_ids is None and _is_list(text):
        return [(one, None, None) for one in text], False
    if text is None and _is_list(token_ids):
        token_ids = list(token_ids)
        if token_ids and isinstance(_as_list(token_ids[0]), Iterable):
            return [(None, _as_list(ids), None) for ids in token_ids], False  # type: ignore[misc]
    return [(text, token_ids, None)], True  # type: ignore[list-item]


def given_chats(messages: object) -> tuple[list[Prompt], bool]:
    """The prompts of `chat`, likewise."""
    if _is_list(messages):
        messages = list(messages)
        if messages and _is_list(messages[0]):
            return [(None, None, chat) for chat in messages], False
    return [(None, None, messages)], True  # type: ignore[list-item]


def _as_list(value: object) -> object:
    """An array or tensor as a list, its items as numbers of Python."""
    to_list = getattr(value, "tolist", None)
    return value if to_list is None else to_list()


def _is_list(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
