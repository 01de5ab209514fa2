"""Reads a Dockerfile: its stages, and the instructions that each has from those that it is made from."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Stage", "arguments", "stages"]


@dataclass(slots=True)
class Stage:
    """A stage of an image.

    Attributes:
        name: After `AS`.
        parent: The stage or image that it begins from.
        lines: Its instructions: keyword and rest, those of its parents first.
        inherited: How many of them are its parents'.
    """

    name: str
    parent: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    inherited: int = 0

    @property
    def own(self) -> list[tuple[str, str]]:
        """Its instructions without those of its parents."""
        return self.lines[self.inherited :]

    def all(self, keyword: str) -> list[str]:
        """The rest of each instruction of a kind, in order."""
        return [rest for one, rest in self.lines if one == keyword]

    def last(self, keyword: str) -> str:
        """The one in force."""
        return self.all(keyword)[-1]

    def words(self, keyword: str) -> list[str]:
        """The words of the one in force, in its JSON form; options before it are left out."""
        text = self.last(keyword)
        return list(json.loads(text[text.index("[") :]))

    @property
    def env(self) -> dict[str, str]:
        """Variables and their values."""
        return _pairs(self.all("ENV"))

    @property
    def labels(self) -> dict[str, str]:
        """Labels and their values."""
        return _pairs(self.all("LABEL"))

    @property
    def commands(self) -> list[list[str]]:
        """The commands that its RUN instructions chain."""
        return [shlex.split(one) for text in self.all("RUN") for one in text.split("&&")]

    @property
    def packages(self) -> set[str]:
        """The Debian packages that it installs."""
        installs = [words for words in self.commands if words[:2] == ["apt-get", "install"]]
        return {word for words in installs for word in words[2:] if not word.startswith("-")}


def _pairs(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        for word in shlex.split(line):
            key, _, value = word.partition("=")
            found[key] = value
    return found


def _instructions(path: Path) -> list[tuple[str, str]]:
    text = "\n".join(
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )
    parts = (line.strip().partition(" ") for line in text.replace("\\\n", " ").splitlines())
    return [(keyword, rest.strip()) for keyword, _, rest in parts if keyword]


def arguments(path: Path) -> dict[str, str]:
    """What ARG says before the first stage: defaults of what FROM names."""
    before = itertools.takewhile(lambda one: one[0] != "FROM", _instructions(path))
    return _pairs([rest for keyword, rest in before if keyword == "ARG"])


def stages(path: Path) -> dict[str, Stage]:
    """The stages of a file by name, in order."""
    found: dict[str, Stage] = {}
    stage: Stage | None = None
    for keyword, rest in _instructions(path):
        if keyword == "FROM":
            parent, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()  # type: ignore[union-attr]
            inherited = found[parent].lines if parent in found else []
            stage = found[name] = Stage(name, parent, list(inherited), len(inherited))
        elif stage is not None:
            stage.lines.append((keyword, rest))
    return found
