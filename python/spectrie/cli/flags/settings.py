"""Reads options: the flag wins over the environment, that over the file, that over the default."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spectrie.cli.flags.nearest import nearest
from spectrie.cli.flags.options import TABLE, Option, options_of
from spectrie.errors import ConfigError

__all__ = ["Settings", "resolve"]


class Settings(Mapping[str, Any]):
    """The options of one command, by key or attribute; read-only.

    Attributes:
        command: The command whose options they are.
        origins: Where each value came from: `flag`, `environment`, `file` or `default`, by key.
    """

    __slots__ = ("_values", "command", "origins")

    def __init__(self, command: str, values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
        self.command = command
        self._values = dict(values)
        self.origins = dict(origins)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __getattr__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise AttributeError(f"no option {key!r}") from None

    def fields(self, *tables: str) -> dict[str, Any]:
        """The values of the options of these tables, by their names in code."""
        options = options_of(self.command)
        return {option.field: self[option.key] for option in options if option.table in tables}

    def keywords(self) -> dict[str, Any]:
        """The values that `spectrie.LLM` takes, by keyword."""
        options = options_of(self.command)
        return {option.field: self[option.key] for option in options if option.is_keyword}

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def resolve(
    command: str, args: argparse.Namespace, environ: Mapping[str, str] | None = None
) -> Settings:
    """Gives every option of `command` its value.

    Args:
        command: A command of the table, such as `serve`.
        args: What the parser of `add_options` read.
        environ: The environment; the process's own by default.

    Raises:
        ConfigError: A value or key is not allowed; the message names flag, variable or file.
    """
    environ = os.environ if environ is None else environ
    config = getattr(args, "config", None) or environ.get("SPECTRIE_CONFIG") or None
    file = _read_file(Path(config)) if config else {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for option in options_of(command):
        given = getattr(args, option.key, None)
        variable = environ.get(option.variable, "")
        if given is not None:
            values[option.key], origins[option.key] = _read(option, given, option.flag), "flag"
        elif variable:
            text: object = variable
            if option.repeated:
                text = [part for part in variable.split(",") if part.strip()]
            values[option.key] = _read(option, text, f"environment variable {option.variable}")
            origins[option.key] = "environment"
        elif option.key in file:
            where = f"{config}: {option.key}"
            values[option.key], origins[option.key] = _read(option, file[option.key], where), "file"
        else:
            values[option.key], origins[option.key] = option.default, "default"
    return Settings(command, values, origins)


def _read(option: Option, given: object, where: str) -> object:
    """The value of `given`, a text or a TOML value, or lists of them for a repeated option."""
    if option.repeated:
        items = given if isinstance(given, list) else [given]
        return tuple(_read_one(option, item, where) for item in items)
    return _read_one(option, given, where)


def _read_one(option: Option, given: object, where: str) -> object:
    if isinstance(given, bool):
        given = str(given).lower()
    if not isinstance(given, str | int | float):
        raise ConfigError(f"{where}: a {type(given).__name__} is not a value of this option")
    try:
        value: object = option.kind.parse(str(given).strip())
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    return value


def _read_file(path: Path) -> dict[str, Any]:
    """The table of a TOML file, with every key known to some command.

    One file may serve `serve`, `router` and `worker`: each takes the keys that it knows.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path}: {error}") from error
    known = {option.key for option in TABLE}
    normalised = {key.replace("-", "_"): value for key, value in table.items()}
    for key in normalised:
        if key not in known:
            raise ConfigError(f"{path}: unknown key {key!r}{nearest(key, known)}")
    return normalised
