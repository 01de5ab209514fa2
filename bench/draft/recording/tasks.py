"""What the model was asked for the traces of its own output: three splits of unlike sources.

What is asked of a source, as to rename a function or to answer a question about a passage, is worded alike in all three.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bench.draft.recording import texts
from bench.draft.recording.texts import Function

__all__ = ["FAMILIES", "ROUTED", "SPLITS", "Split", "Task", "routing", "tasks"]

Split = Literal["tune", "choose", "report"]
SPLITS: tuple[Split, ...] = ("tune", "choose", "report")
"""What weights are fitted to; what settings are chosen by; what a bench reports."""
ROUTED = 256
"""Requests of the routing trace that is reported."""

_PER_SPLIT = 24
_ROUTED_APART = 64
_PROMPTS = Path(__file__).with_name("prompts")


@dataclass(frozen=True, slots=True)
class Task:
    """One request: either `text` to continue or `messages` to answer.

    Attributes:
        text: Raw text.
        messages: Turns of a chat.
        prediction: What the answer will resemble.
        max_tokens: Longest answer.
        temperature: Of sampling; 0 is greedy.
        follow_ups: What the user says after each answer. Each is a request of its own, and then the
            first answer is none: it only begins the chat.
    """

    text: str | None = None
    messages: tuple[dict[str, str], ...] | None = None
    prediction: str | None = None
    max_tokens: int = 128
    temperature: float = 0.0
    follow_ups: tuple[str, ...] = ()


def tasks(family: str, split: Split) -> list[Task]:
    """The tasks of a family in one split; no source of them is in two."""
    return _MAKERS[family](split)


@cache
def _prompts(name: str) -> dict[str, Any]:
    path = _PROMPTS / f"{name}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def _ask(question: str, prediction: str | None = None, max_tokens: int = 128) -> Task:
    turn = {"role": "user", "content": question}
    return Task(messages=(turn,), prediction=prediction, max_tokens=max_tokens)


def _code_chat(split: Split) -> list[Task]:
    stubs = texts.stubs(split)[:_PER_SPLIT]
    return [_ask(f"Complete this Python function.\n\n```python\n{text}\n```") for text in stubs]


def _code_raw(split: Split) -> list[Task]:
    return [Task(text=text) for text in texts.stubs(split)[:_PER_SPLIT]]


def _questions(split: Split) -> list[Task]:
    questions = itertools.cycle(_prompts("instructions")["question"])
    passages = texts.manuals(split)[:_PER_SPLIT]
    return [
        _ask(f"{text}\n\n{question}") for text, question in zip(passages, questions, strict=False)
    ]


def _edits(split: Split) -> list[Task]:
    instructions = itertools.cycle(_prompts("instructions")["edit"])
    functions = texts.functions(split)[:_PER_SPLIT]
    return [
        _edit(function, instruction)
        for function, instruction in zip(functions, instructions, strict=False)
    ]


def _edit(function: Function, instruction: str) -> Task:
    request = instruction.format(
        name=function.busiest_name,
        other=f"the_{function.busiest_name}",
        function=function.name,
        renamed=f"run_{function.name}",
    )
    return _ask(
        f"{request} Answer with the whole function in one code block and nothing else.\n\n"
        f"```python\n{function.source}\n```",
        prediction=f"```python\n{function.source}\n```\n",
    )


def _routing(split: Split) -> list[Task]:
    return routing(split, ROUTED if split == "report" else _ROUTED_APART)


def routing(split: Split, count: int) -> list[Task]:
    """The first `count` requests of the routing family, no utterance twice."""
    data = _prompts("routing")[split]
    turns: list[dict[str, str]] = [{"role": "system", "content": data["system"]}]
    for question, intent, action, target, value in data["examples"]:
        answer = data["answer"].format(intent=intent, action=action, target=target, value=value)
        turns.append({"role": "user", "content": question})
        turns.append({"role": "assistant", "content": answer})
    # The names under which the first traces were frozen.
    seed = {"report": "test"}.get(split, split)
    utterances = _filled(data["templates"], data["slots"], count, f"routing {seed}")
    return [
        Task(messages=(*turns, {"role": "user", "content": utterance}), max_tokens=48)
        for utterance in utterances
    ]


def _filled(
    templates: list[str], slots: dict[str, list[str]], count: int, seed: str, *, each: bool = False
) -> list[str]:
    """Templates with drawn values, none twice; each template as often as the others, or drawn."""
    made: list[str] = []
    choice = random.Random(seed).choice
    while len(made) < count:
        values = {name: choice(options) for name, options in slots.items()}
        template = templates[len(made) % len(templates)] if each else choice(templates)
        text = template.format(**values)
        if text not in made:
            made.append(text)
    return made


def _chat(split: Split) -> list[Task]:
    return [_ask(question) for question in _prompts("chat")[split]]


def _languages(split: Split) -> list[Task]:
    return [_ask(question) for question in _prompts("languages")[split]]


def _programming(split: Split) -> list[Task]:
    return [
        _ask(f"Write a function in {language} that {purpose}.")
        for language, purposes in _prompts("programming")[split].items()
        for purpose in purposes
    ]


def _maths(split: Split) -> list[Task]:
    data = _prompts("maths")[split]
    filled = _filled(data["templates"], data["slots"], 16, f"maths {split}", each=True)
    return [_ask(text) for text in filled]


def _summaries(split: Split) -> list[Task]:
    return [
        _ask(f"{text}\n\nSummarise this text in a short paragraph.")
        for text in texts.prose(split)[:16]
    ]


def _translation(split: Split) -> list[Task]:
    data = _prompts("translation")[split]
    pairs = itertools.pairwise([*data["texts"], data["texts"][0]])
    single = [_ask(f"Translate to {data['language']}:\n\n{text}") for text in data["texts"]]
    return single + [
        _ask(f"Translate these two paragraphs to {data['language']}:\n\n{first}\n\n{second}")
        for first, second in pairs
    ]


def _turns(split: Split) -> list[Task]:
    return [
        Task(
            messages=({"role": "user", "content": first},),
            follow_ups=tuple(others),
            max_tokens=96,
        )
        for first, *others in _prompts("turns")[split]
    ]


def _warm(split: Split) -> list[Task]:
    return [
        Task(messages=({"role": "user", "content": text},), temperature=0.8)
        for text in _prompts("warm")[split]
    ]


_MAKERS: dict[str, Callable[[Split], list[Task]]] = {
    "human_eval_chat": _code_chat,
    "human_eval_raw": _code_raw,
    "questions": _questions,
    "edits": _edits,
    "chat": _chat,
    "routing": _routing,
    "languages": _languages,
    "programming": _programming,
    "maths": _maths,
    "summaries": _summaries,
    "translation": _translation,
    "turns": _turns,
    "warm": _warm,
}
FAMILIES = tuple(_MAKERS)
"""The families of tasks, each the name of a trace file."""
