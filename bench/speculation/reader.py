"""Reads the files of other projects: Spec-Bench's `question.jsonl` and ShareGPT's conversations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Question", "read"]

_SHARED = "sharegpt"
_USERS = ("human", "user")
_EXPECTED = (
    "expected Spec-Bench's question.jsonl (an object with `turns` and `category` in each line) or"
    " ShareGPT (a list of objects with `conversations`)"
)


@dataclass(frozen=True, slots=True)
class Question:
    """What a user says in one conversation.

    Attributes:
        name: Tells it from the others.
        category: Kind of question; `sharegpt` where the file has none.
        turns: The user's messages, at least one.
    """

    name: str
    category: str
    turns: tuple[str, ...]


def read(path: Path) -> list[Question]:
    """The questions of a file, in its order; conversations in which no user speaks are left out.

    Raises:
        OSError: It cannot be read.
        ValueError: It is in neither form; the message says where.
    """
    text = path.read_text(encoding="utf-8")
    try:
        whole = json.loads(text)
        entries = whole if isinstance(whole, list) else [whole]
        places = [f"entry {number}" for number in range(1, len(entries) + 1)]
    except json.JSONDecodeError:
        entries, places = [], []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                entries.append(_line(path, number, line))
                places.append(f"line {number}")
    found = [
        _question(path, place, number, entry)
        for number, (place, entry) in enumerate(zip(places, entries, strict=True), 1)
    ]
    questions = [question for question in found if question.turns]
    if not questions:
        raise ValueError(f"{path} holds no question: {_EXPECTED}")
    return questions


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {number}: {error}; {_EXPECTED}") from error


def _question(path: Path, place: str, number: int, entry: Any) -> Question:
    if not isinstance(entry, dict):
        raise ValueError(f"{path}, {place}: no object; {_EXPECTED}")
    if isinstance(entry.get("turns"), list):
        turns, category = entry["turns"], str(entry.get("category", "questions"))
        name = entry.get("question_id", number)
    elif isinstance(entry.get("conversations"), list):
        turns = [
            turn.get("value", turn.get("content"))
            for turn in entry["conversations"]
            if isinstance(turn, dict) and turn.get("from", turn.get("role")) in _USERS
        ]
        category, name = _SHARED, entry.get("id", number)
    else:
        raise ValueError(f"{path}, {place}: neither `turns` nor `conversations`; {_EXPECTED}")
    if not all(isinstance(turn, str) for turn in turns):
        raise ValueError(f"{path}, {place}: a turn is not text; {_EXPECTED}")
    return Question(f"{number}/{name}", category, tuple(turns))
