"""argparse with help that keeps its layout and unknown names answered by the nearest known one."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from spectrie.cli.flags.nearest import nearest

__all__ = ["CommandParser", "HelpFormatter", "add_command"]


_MANY_OPTIONS = 12
"""More options than these are shown once, under their headings."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help with wide option columns and texts as written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34)

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        """Names the arguments, and each option only where these are few."""
        optional = [action for action in actions if action.option_strings]
        if usage is None and len(optional) > _MANY_OPTIONS:
            needed = [action for action in actions if not action.option_strings]
            named = self._format_usage(None, needed, (), "").strip()
            usage = f"{named.replace('%', '%%')} [OPTIONS]"
        super().add_usage(usage, actions, groups, prefix)


def add_command(
    commands: argparse._SubParsersAction[Any], name: str, summary: str
) -> argparse.ArgumentParser:
    """Adds a command, or an action of one, whose help begins with its line in the list of all."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=HelpFormatter,
    )
    return parser


class CommandParser(argparse.ArgumentParser):
    """A parser that takes no abbreviated flags and whose errors name the nearest known name."""

    def __init__(self, **arguments: object) -> None:
        super().__init__(allow_abbrev=False, **arguments)  # type: ignore[arg-type]

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parses `arguments`; an unknown flag is answered with the nearest known one."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            parser = self._parser_of(getattr(parsed, "command", None))
            flags = {flag for action in parser._actions for flag in action.option_strings}
            name = unknown[0].split("=", 1)[0]
            if name.startswith("-"):
                parser.error(f"unknown option {name}{nearest(name, flags)}")
            parser.error(f"unexpected argument {unknown[0]!r}")
        return parsed

    def _parser_of(self, command: str | None) -> argparse.ArgumentParser:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and command in action.choices:
                parser: argparse.ArgumentParser = action.choices[command]
                return parser
        return self

    def error(self, message: str) -> NoReturn:
        """Writes one line and how to get help, and exits with 2."""
        match = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if match:
            known = set(re.findall(r"[\w-]+", match[2]))
            message = f"unknown command {match[1]!r}{nearest(match[1], known)}"
        self.exit(2, f"spectrie: {message}\ntry: {self.prog} --help\n")
