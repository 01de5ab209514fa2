"""The flags with which a command reaches a server by TLS."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypedDict

from spectrie.errors import ConfigError

__all__ = ["TlsKeywords", "add_tls", "tls_of", "uses_tls"]

_FILES = (
    ("tls_ca", "authority of the server's certificate: connect by TLS"),
    ("tls_cert", "own certificate, for a server that asks for one"),
    ("tls_key", "private key of --tls-cert"),
)


class TlsKeywords(TypedDict):
    """Keywords of a client's constructor."""

    tls: bool
    root_certificates: bytes | None
    private_key: bytes | None
    certificate_chain: bytes | None


def add_tls(parser: argparse.ArgumentParser) -> None:
    """Adds `--tls` and the flags that name PEM files."""
    parser.add_argument(
        "--tls", action="store_true", help="connect by TLS, trusting public authorities [off]"
    )
    for name, meaning in _FILES:
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, dest=name, metavar="FILE", help=f"{meaning} [none]")


def uses_tls(args: argparse.Namespace) -> bool:
    """Whether one of the flags was given."""
    return args.tls or any(getattr(args, name) is not None for name, _ in _FILES)


def tls_of(args: argparse.Namespace) -> TlsKeywords:
    """What a client's constructor takes, by the flags of `add_tls`.

    Raises:
        ConfigError: A file cannot be read.
    """
    return {
        "tls": args.tls,
        "root_certificates": _content("--tls-ca", args.tls_ca),
        "private_key": _content("--tls-key", args.tls_key),
        "certificate_chain": _content("--tls-cert", args.tls_cert),
    }


def _content(flag: str, path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag} {path}: {error}") from error
