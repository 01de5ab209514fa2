"""`spectrie abort`: ends one request of a running server."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from spectrie.cli.operators.server import add_server, operate

if TYPE_CHECKING:
    from spectrie.client import AdminClient

__all__ = ["configure", "run"]

_EPILOG = """\
The request ends within one step, whether it waits, runs, or was cut off and could be resumed; its
client hears CANCELLED. ID is the request's name in logs, or the id of its answer over HTTP.

examples:
  spectrie abort chatcmpl-3f0c6d0e6d5b4b0c9b1f1a2b3c4d5e6f
  spectrie abort nightly-7 --tenant ann
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("request", metavar="ID", help="name of the request")
    parser.add_argument("--tenant", metavar="NAME", help="tenant that sent it [any]")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Ends the request; returns the exit code."""

    def abort(client: AdminClient) -> int:
        return client.abort(args.request, tenant=args.tenant)

    def show(ended: int) -> None:
        prompts = "" if ended == 1 else f", {ended} prompts"
        print(f"{args.request} ended{prompts}", file=sys.stderr)

    return operate(args, abort, show)
