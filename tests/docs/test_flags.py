"""Commands and flags that the pages name exist."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from spectrie.cli import COMMANDS, main
from tests.docs.markdown import PAGES, ROOT, blocks

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OTHERS = {
    "--role",
    "--prefix",
    "--release",
    "--profile",
    "--component",
    "--bench",
    "--dry",
    "--before",
    "--lib",
    "--test",
    "--values",
    "--set",
    "--for",
    "--timeout",
    "--from-file",
    "--strict",
    "--model-server-metrics-port",
    "--target",
    "--read-only",
    "--tmpfs",
    "--find-links",
    "--no-index",
    "--volume",
    "--env",
    "--build-arg",
    "--go",
    "--go-grpc",
    "--no-buffer",
    "--data",
}
"""Flags of other programs that the pages name: the install script, cargo, rustup, pip, benches, helm, kubectl, docker, protoc, curl."""
GENERATED = {"THIRD_PARTY_LICENSES.md", "DESIGN.md"}
"""Pages about no command, or about many programs' commands."""
ACTION = re.compile(r"^    ([a-z]+)  ", re.MULTILINE)

EACH_PAGE = pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in GENERATED],
    ids=lambda page: str(page.relative_to(ROOT)),
)


class Helps:
    """The `--help` of every command and action, by its words."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    @cache  # noqa: B019 - one object for each test
    def of(self, *words: str) -> str:
        assert main([*words, "--help"]) == 0
        return self._capsys.readouterr().out

    def actions(self, command: str) -> list[str]:
        text = self.of(command)
        return ACTION.findall(text.partition("ACTION\n")[2].partition("\n\n")[0])

    def flags(self, *words: str) -> set[str]:
        return set(FLAG.findall(self.of(*words)))

    def all_flags(self) -> set[str]:
        found = {"--version"}
        for command in COMMANDS:
            found |= self.flags(command.name)
            for action in self.actions(command.name):
                found |= self.flags(command.name, action)
        return found


@pytest.fixture
def helps(capsys: pytest.CaptureFixture[str]) -> Helps:
    return Helps(capsys)


def commands_of(text: str) -> list[list[str]]:
    """The words after `spectrie` of each command in a fenced block."""
    lines = [line for block in blocks(text) for line in block.commands]
    parts = [shlex.split(line) for line in lines if re.match(r"(\.venv/bin/)?spectrie ", line)]
    return [words[1:] for words in parts]


@EACH_PAGE
def test_flags_exist(page: Path, helps: Helps) -> None:
    named = set(FLAG.findall(page.read_text(encoding="utf-8")))
    assert named - OTHERS - helps.all_flags() == set()


@EACH_PAGE
def test_fenced_commands_know_their_flags(page: Path, helps: Helps) -> None:
    for words in commands_of(page.read_text(encoding="utf-8")):
        command = words[:2] if words[1] in helps.actions(words[0]) else words[:1]
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given - helps.flags(*command) == set(), words
