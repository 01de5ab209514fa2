"""Values of flags that belong to one command alone and have no variable or configuration key."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from spectrie.cli.flags.values import Kind
from spectrie.errors import ConfigError

__all__ = ["add_value", "read_value"]


def add_value(
    parser: argparse.ArgumentParser, key: str, kind: Kind, default: object, help_text: str
) -> None:
    """Adds the flag of `key`, such as `--min-value` of `min_value`, shown with its default."""
    parser.add_argument(
        _flag(key),
        dest=key,
        metavar=kind.metavar,
        help=f"{help_text} [{default}]".replace("%", "%%"),
    )


def read_value(
    args: argparse.Namespace, key: str, parse: Callable[[str], Any], default: Any
) -> Any:
    """The value of the flag of `key`, or `default` when it was not given.

    Raises:
        ConfigError: Naming the flag and what is allowed.
    """
    given = getattr(args, key)
    if given is None:
        return default
    try:
        return parse(given)
    except ValueError as error:
        raise ConfigError(f"{_flag(key)}: {error}") from None


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")
