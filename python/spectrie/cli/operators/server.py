"""What commands that operate a running server share: its address, and how failures are reported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spectrie.cli.flags.secret_file import read_token
from spectrie.cli.flags.tls import add_tls, tls_of
from spectrie.errors import ConfigError, PartialFailure

if TYPE_CHECKING:
    from spectrie.client import AdminClient

__all__ = ["VARIABLE", "add_server", "operate", "rows"]

VARIABLE = "SPECTRIE_ADMIN"
"""The environment variable of `--server`; a server reads from it where to listen for operators."""

EXIT_FAILURE = 1


def add_server(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that name a server."""
    parser.add_argument(
        "--server",
        metavar="ADMIN",
        help=f"operators' address of a server, printed at its start-up [{VARIABLE}]",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="secret of the server's --admin-token-file [none]",
    )
    add_tls(parser)
    parser.add_argument("--model", metavar="NAME", help="served model to operate on [the only one]")


def operate(
    args: argparse.Namespace,
    action: Callable[[AdminClient], Any],
    show: Callable[[Any], None],
    environ: Mapping[str, str] | None = None,
) -> int:
    """Runs `action` on the server of `args` and shows its result; returns the exit code.

    Workers that failed are named on stderr, after the result of the others, and make the exit
    code 1.

    Raises:
        ConfigError: No server is named, or a file cannot be read.
        SpectrieError: As the client raises it.
    """
    from spectrie.client import AdminClient

    environ = os.environ if environ is None else environ
    server = args.server or environ.get(VARIABLE)
    if not server:
        raise ConfigError(
            f"give --server ADMIN or set {VARIABLE}: the server prints it at start-up"
        )
    with AdminClient(
        server,
        token=read_token("--token-file", args.token_file),
        model=args.model,
        **tls_of(args),
    ) as client:
        try:
            show(action(client))
        except PartialFailure as partial:
            show(partial.result)
            for failure in partial.failures:
                print(f"spectrie: worker {failure.worker}: {failure.message}", file=sys.stderr)
            return EXIT_FAILURE
    return 0


def rows(table: Sequence[tuple[str, ...]], empty: str) -> None:
    """Prints rows in columns, the first to the left and the others to the right."""
    if not table:
        print(empty, file=sys.stderr)
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())
