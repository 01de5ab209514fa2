"""Help: in groups, without a wall of options, by `help` too."""

from __future__ import annotations

import pytest

from spectrie.cli import COMMANDS, main
from spectrie.cli.flags.groups import GROUPS
from spectrie.cli.flags.options import TABLE, options_of


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_every_option_has_one_heading() -> None:
    keys = [key for _, of_group in GROUPS for key in of_group]
    assert sorted(keys) == sorted(option.key for option in TABLE)


@pytest.mark.parametrize("command", ["serve", "router", "worker"])
def test_options_stand_under_their_headings(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {option.key for option in options_of(command)}
    text = shown(capsys, command, "--help")
    sections = dict(part.split(":\n", 1) for part in text.split("\n\n") if ":\n" in part)
    for title, keys in GROUPS:
        flags = ["--" + key.replace("_", "-") for key in keys if key in known]
        found = [
            line.split()[0]
            for line in sections.get(title, "").splitlines()
            if line.startswith("  --")
        ]
        assert found == flags


def test_usage_of_many_options_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "serve", "--help").startswith(
        "usage: spectrie serve MODEL [MODEL ...] [OPTIONS]\n\n"
    )
    assert "[--json]" in shown(capsys, "doctor", "--help").partition("\n\n")[0]


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_of_a_command_is_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "help", command) == shown(capsys, command, "--help")


def test_help_alone_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "help") == shown(capsys, "--help")


def test_help_of_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "serv"]) == 2
    assert "unknown command 'serv'; did you mean 'serve'?" in capsys.readouterr().err


def test_v_is_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "-V") == shown(capsys, "--version")
