"""The prompts of `spectrie demo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PROMPTS", "DemoPrompt"]


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """One prompt of the demo.

    Attributes:
        title: Its name in the table.
        shown: What the user sees of the question.
        request: Prompt and options, as `Client.stream` takes them.
    """

    title: str
    shown: str
    request: dict[str, Any]


_FUNCTION = '''\
def find_duplicates(items):
    """Return the items that occur more than once, in order of first repetition."""
    seen = set()
    duplicates = []
    for item in items:
        if item in seen and item not in duplicates:
            duplicates.append(item)
        seen.add(item)
    return duplicates
'''

_CODE = "Write a Python class Vector with the methods add, subtract and scale."

_EDIT = (
    "Repeat this code exactly, with the function renamed to `repeated_items`:\n\n"
    f"```python\n{_FUNCTION}```"
)


def _chat(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}]


_QUESTION = "What is the difference between a process and a thread? Answer in three sentences."

PROMPTS: tuple[DemoPrompt, ...] = (
    DemoPrompt(
        "chat",
        f"{_QUESTION} (sampled: temperature 0.8, seed 7)",
        {"messages": _chat(_QUESTION), "temperature": 0.8, "top_p": 0.95, "seed": 7},
    ),
    DemoPrompt("code", _CODE, {"messages": _chat(_CODE), "temperature": 0.0}),
    DemoPrompt(
        "edit",
        "Rename the function find_duplicates (its text is given as `prediction` too).",
        {
            "messages": _chat(_EDIT),
            "temperature": 0.0,
            "prediction": f"```python\n{_FUNCTION}```",
        },
    ),
)
"""One prompt each of chat, code and editing."""
