"""Prompts of many subjects and forms, for a model that writes its own training text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.types import Message

__all__ = ["PROMPT_PARTS", "Chat", "varied_chats"]

PROMPT_PARTS = Path(__file__).with_name("prompt_parts.json")
"""The file of words and forms."""
_SLOT = re.compile(r"\{(\w+)\}")
_FOLLOW_UP_SHARE = 0.2
_SYSTEM_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat that the model is to answer.

    Attributes:
        messages: What it answers first.
        follow_ups: What the user says after each answer.
    """

    messages: tuple[Message, ...]
    follow_ups: tuple[str, ...] = ()


def varied_chats(count: int, seed: int = 0) -> list[Chat]:
    """Returns chats that begin with different messages; equal arguments give equal chats.

    A fifth has follow-ups, another fifth a system message of its own.

    Args:
        count: How many; there are more than 100,000.
        seed: Chooses them.
    """
    writer = _Writer(json.loads(PROMPT_PARTS.read_text(encoding="utf-8")), random.Random(seed))
    chats: dict[str, Chat] = {}
    while len(chats) < count:
        chat = writer.chat()
        chats.setdefault(chat.messages[-1]["content"], chat)
    return list(chats.values())


class _Writer:
    """Fills forms with words, at random."""

    def __init__(self, parts: Mapping[str, Any], chance: random.Random) -> None:
        self._slots = {name: words.split("|") for name, words in parts["slots"].items()}
        self._parts = parts
        self._kinds: list[list[str]] = [kind["forms"] for kind in parts["kinds"].values()]
        self._weights = [kind["weight"] for kind in parts["kinds"].values()]
        self._chance = chance

    def chat(self) -> Chat:
        chance = self._chance
        (forms,) = chance.choices(self._kinds, self._weights)
        text = self._one("openings") + self._filled(chance.choice(forms))
        messages: list[Message] = [{"role": "user", "content": text}]
        system = self._one("systems") if chance.random() < _SYSTEM_SHARE else ""
        if system:
            messages.insert(0, {"role": "system", "content": system})
        follow_ups = [self._one("follow_ups")] if chance.random() < _FOLLOW_UP_SHARE else []
        if follow_ups and chance.random() < _FOLLOW_UP_SHARE:
            follow_ups.append(self._one("follow_ups"))
        return Chat(tuple(messages), tuple(follow_ups))

    def _one(self, name: str) -> str:
        return self._filled(self._chance.choice(self._parts[name]))

    def _filled(self, form: str) -> str:
        return _SLOT.sub(lambda slot: self._word(slot[1]), form)

    def _word(self, slot: str) -> str:
        if slot == "passage":
            return self._one("passages")
        words: list[str] = self._slots[slot]
        return self._chance.choice(words)
