"""Options at the command line: flag, environment variable, configuration key, default and help.

The options themselves are in the tables of the core (`rust/types/src/options`). All names derive
from the key: `max_context` is the flag `--max-context`, the environment variable
`SPECTRIE_MAX_CONTEXT` and the key `max_context` of the `--config` file.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spectrie._core import option_rows
from spectrie.cli.flags import values
from spectrie.cli.flags.groups import place_in_help, title_of
from spectrie.cli.flags.values import Kind

if TYPE_CHECKING:
    from spectrie._core import OptionRow

__all__ = [
    "REQUEST",
    "TABLE",
    "Option",
    "add_config",
    "add_option",
    "add_options",
    "option",
    "options_of",
]

_OF_REQUESTS = ("sampling", "request")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of one or several commands.

    Attributes:
        key: Its name in a configuration file; flag and variable derive from it.
        field: Its name in code, such as that of the field of `EngineOptions`.
        table: Its table, such as `server` or `engine`.
        kind: How its text is read.
        default: The value when nothing sets it; None where that follows from something else.
        default_text: The default as help shows it.
        help: One line for the user.
        commands: The commands that know it.
        is_keyword: Whether `spectrie.LLM` takes it, as `field`.
        repeated: Whether it may be given several times (a list in a file, commas in a variable).
    """

    key: str
    field: str
    table: str
    kind: Kind
    default: Any
    default_text: str
    help: str
    commands: tuple[str, ...]
    is_keyword: bool
    repeated: bool = False

    @property
    def flag(self) -> str:
        """The command-line flag, such as `--max-context`."""
        return "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable, such as `SPECTRIE_MAX_CONTEXT`."""
        return "SPECTRIE_" + self.key.upper()

    @property
    def help_text(self) -> str:
        """What it does, its range and unit, and its default."""
        allowed = f" ({self.kind.allowed})" if self.kind.allowed else ""
        return f"{self.help}{allowed} [{self.default_text}]"


def _option(row: OptionRow, key: str) -> Option:
    return Option(
        key=key,
        field=row.field,
        table=row.table,
        kind=_kind(row),
        default=row.default,
        default_text=row.default_text,
        help=_phrase(row.summary),
        commands=tuple(row.commands),
        is_keyword=row.is_keyword,
        repeated=row.kind == "texts",
    )


def _kind(row: OptionRow) -> Kind:
    low, high = row.minimum, row.maximum
    match row.kind:
        case "integer":
            return values.integer(
                int(low or 0),
                None if high is None else int(high),
                unit=row.unit,
                auto=row.default is None and row.table not in _OF_REQUESTS,
            )
        case "number":
            return values.number(low, high, unit=row.unit, is_open=row.is_open)
        case "choice":
            return values.choice(*row.names)
        case "address":
            return values.address(unix="unix" in row.forms, off="off" in row.forms)
        case "text" | "texts":
            return values.named(row.names[0])
    return {"flag": values.flag, "duration": values.duration, "size": values.size}[row.kind]


def _phrase(sentence: str) -> str:
    """A sentence as help shows it: without full stop, and without capital unless it is a name."""
    text = sentence.removesuffix(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


_OPTIONS = [_option(row, row.key) for row in option_rows() if row.key is not None]

TABLE = tuple(option for option in _OPTIONS if option.table not in _OF_REQUESTS)
"""Every option of every command that a variable or a file may set, too."""

REQUEST = tuple(option for option in _OPTIONS if option.table in _OF_REQUESTS)
"""Every option of `spectrie generate` that belongs to its one request."""


def option(key: str) -> Option:
    """The option of this key."""
    return next(option for option in TABLE if option.key == key)


def options_of(command: str) -> tuple[Option, ...]:
    """The options that `command` knows, in the order of help."""
    return tuple(option for option in TABLE if command in option.commands)


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Adds the flags of `command` and `--config` to `parser`.

    Values stay text, absent flags None: `settings.resolve` reads them together with environment
    and file, so that a wrong value gets the same message wherever it was written.
    """
    found = sorted(options_of(command), key=lambda option: place_in_help(option.key))
    groups: dict[str, argparse._ActionsContainer] = {}
    for option in found:
        title = title_of(option.key)
        if title is not None and title not in groups:
            groups[title] = parser.add_argument_group(title)
        add_option(parser if title is None else groups[title], option)
    add_config(parser)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Adds `--config`, the file that may set the options of a command."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file of options (keys as the flags, with _ for -) [none]",
    )


def add_option(parser: argparse._ActionsContainer, option: Option) -> None:
    """Adds the flag of one option; its value stays text."""
    help_text = option.help_text.replace("%", "%%")
    if option.kind.is_flag:
        parser.add_argument(
            option.flag, action="store_const", const="true", dest=option.key, help=help_text
        )
    else:
        parser.add_argument(
            option.flag,
            action="append" if option.repeated else "store",
            dest=option.key,
            metavar=option.kind.metavar,
            help=help_text,
        )
