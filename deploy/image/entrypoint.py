"""Starts `spectrie` in an image, unless everyone who reaches the container could use the model by accident.

An image listens on all of the container's addresses. So `serve` and `router` need API keys (`--api-keys`) or the
certificates of clients (`--tls-client-ca`), by flag, variable or file; `SPECTRIE_OPEN=1` says that everyone may call.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from spectrie.cli.flags.options import add_options
from spectrie.cli.flags.settings import resolve
from spectrie.errors import ConfigError

__all__ = ["refusal"]

EXIT_USAGE = 2
_SERVERS = ("serve", "router")


def refusal(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Why the command is not started; None if it is.

    Args:
        arguments: What follows `spectrie`.
        environ: The environment.
    """
    command = next((one for one in arguments if not one.startswith("-")), None)
    asks_for_help = not {"-h", "--help"}.isdisjoint(arguments)
    if command not in _SERVERS or environ.get("SPECTRIE_OPEN") == "1" or asks_for_help:
        return None
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False, allow_abbrev=False)
    add_options(parser, command)
    try:
        args, _ = parser.parse_known_args(arguments)
        settings = resolve(command, args, environ)
    except (argparse.ArgumentError, ConfigError):
        return None  # the command itself says what is wrong
    if settings.api_keys or settings.tls_client_ca:
        return None
    exposed = [
        f"--{option} {settings[option]}"
        for option in ("http", "grpc")
        if _is_exposed(settings[option])
    ]
    if not exposed:
        return None
    return (
        f"everyone who reaches this container could use the model ({', '.join(exposed)}): give --api-keys FILE "
        "or --tls-client-ca FILE, or set SPECTRIE_OPEN=1 if that is meant"
    )


def _is_exposed(address: str | None) -> bool:
    """Whether others than this container reach an address."""
    if address in (None, "off") or address.startswith("unix:"):
        return False
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def main() -> int:
    """Becomes the command; returns only where it is refused."""
    reason = refusal(sys.argv[1:], os.environ)
    if reason is not None:
        print(f"spectrie: {reason}", file=sys.stderr)
        return EXIT_USAGE
    program = Path(sys.executable).with_name("spectrie")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
