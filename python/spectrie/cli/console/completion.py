"""`spectrie completion`: a script that completes commands, options and files in a shell."""

from __future__ import annotations

import argparse

from spectrie.errors import ConfigError

__all__ = ["SHELLS", "configure", "run"]

SHELLS = ("bash", "zsh", "fish")
_FILES = {"FILE", "PATH", "DIR", "FOLDER", "MODEL"}
"""What help calls an argument that is, or may be, a file or folder."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    parser.epilog = """\
  bash   spectrie completion bash > ~/.local/share/bash-completion/completions/spectrie
  zsh    spectrie completion zsh > DIR/_spectrie, where DIR is one of $fpath
  fish   spectrie completion fish > ~/.config/fish/completions/spectrie.fish"""


def run(args: argparse.Namespace) -> int:
    """Prints the script.

    Raises:
        ConfigError: The package that makes it is missing.
    """
    try:
        import shtab
    except ImportError:
        raise ConfigError("completion needs the package shtab: pip install shtab") from None

    parser: argparse.ArgumentParser = args.whole
    for command in _with_inner(parser):
        for action in command._actions:
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, args.shell))
    return 0


def _with_inner(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """A parser, and those of its commands and of their actions."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found += _with_inner(child)
    return found
