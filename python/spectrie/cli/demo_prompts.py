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

_CODE = '''\
class Stack:
    """A stack of numbers that knows its minimum."""

    def __init__(self):
        self.items = []
        self.minimums = []

    def push(self, number):
        self.items.append(number)
        if not self.minimums or number <= self.minimums[-1]:
            self.minimums.append(number)

    def pop(self):
'''

_EDIT = (
    "Rename the variable `seen` to `visited`. Answer with the whole function and nothing else.\n\n"
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
    DemoPrompt("code", "a class to continue: Stack", {"prompt": _CODE, "temperature": 0.0}),
    DemoPrompt(
        "edit",
        "a function to edit, given as `prediction` too: find_duplicates",
        {
            "messages": _chat(_EDIT),
            "temperature": 0.0,
            "prediction": f"```python\n{_FUNCTION}```",
        },
    ),
)
"""One prompt each of chat, code and editing."""
