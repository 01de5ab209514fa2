"""`spectrie keys`: makes API keys, and lists those of a server's --api-keys file."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import secrets
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from spectrie.cli.flags.parser import add_command
from spectrie.errors import ConfigError

__all__ = ["configure", "run"]

_KEY_BYTES = 32
"""Random bytes of a key: nobody guesses them, so their plain SHA-256 gives nothing away."""

_LIMITS = {
    "max_priority": "highest priority its requests may have",
    "requests_per_minute": "requests it may send in a minute",
    "tokens_per_minute": "tokens of prompts and answers in a minute",
    "requests_at_once": "requests that may run or wait at the same time",
}
"""Whole numbers of an entry, by the name of their field."""

_EPILOG = """\
`new` prints the entry for the file on stdout, and the key itself once, on stderr: only its SHA-256 is
kept. A server reads the file again when it changes.

example:
  spectrie keys new acme --expires 90d --requests-at-once 16 >> keys.toml
  spectrie serve smollm2-135m --api-keys keys.toml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their arguments to `parser`."""
    parser.epilog = _EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    making = add_command(actions, "new", "make a key and the entry that lets it call")
    making.add_argument("tenant", metavar="TENANT", help="whose requests it sends")
    making.add_argument(
        "--expires",
        metavar="WHEN",
        help="when it stops to work: days from now as 90d, a date, or a date with a time (UTC)",
    )
    making.add_argument(
        "--model", action="append", metavar="NAME", help="a model it may use; repeat for several"
    )
    for name, about in _LIMITS.items():
        making.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=about)
    listing = add_command(actions, "list", "list the keys of a file: tenants and limits, no key")
    listing.add_argument("file", metavar="FILE", type=Path)


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action; results go to stdout, a new key to stderr."""
    return _new(args) if args.action == "new" else _list(args)


def _new(args: argparse.Namespace) -> int:
    key = f"sk-{secrets.token_urlsafe(_KEY_BYTES)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    lines = ["[[keys]]", f"tenant = {_quoted(_tenant(args.tenant))}", f'sha256 = "{digest}"']
    if args.expires is not None:
        lines.append(f"expires = {_moment(args.expires):%Y-%m-%dT%H:%M:%SZ}")
    if args.model:
        lines.append(f"models = {_quoted(args.model)}")
    for name in _LIMITS:
        number = getattr(args, name)
        if number is None:
            continue
        if name != "max_priority" and number < 1:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag}: given {number}; allowed: 1 or more")
        lines.append(f"{name} = {number}")
    print("\n".join(lines), end="\n\n")
    print(f"the key, shown only now: {key}", file=sys.stderr)
    return 0


def _quoted(value: str | list[str]) -> str:
    """Strings as TOML has them, which is as JSON has them."""
    return json.dumps(value, ensure_ascii=False)


def _tenant(name: str) -> str:
    if not name.isprintable() or not name or "/" in name or any(one.isspace() for one in name):
        raise ConfigError("TENANT: allowed: a name without blanks and slashes")
    return name


def _moment(given: str) -> datetime:
    """The moment that `given` means, in UTC."""
    try:
        if days := re.fullmatch(r"(\d{1,5})d", given):
            return datetime.now(UTC) + timedelta(days=int(days[1]))
        moment = datetime.fromisoformat(given)
    except (OverflowError, ValueError):
        allowed = f"allowed: days as 90d, or a date such as {date.today():%Y-%m-%d}"
        raise ConfigError(f"--expires: given {given!r}; {allowed}") from None
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).astimezone(UTC)


def _list(args: argparse.Namespace) -> int:
    from spectrie import _core

    try:
        entries = json.loads(_core.read_api_keys(str(args.file)))
    except _core.RouterError as error:
        raise ConfigError(str(error)) from error
    width = max(len(entry["tenant"]) for entry in entries)
    for entry in entries:
        print(f"{entry['sha256']}…  {entry['tenant']:{width}}  {', '.join(_facts(entry))}")
    return 0


def _facts(entry: dict[str, Any]) -> list[str]:
    """What an entry allows, in words."""
    facts = [_expiry(entry["expires"])]
    if entry["models"] is not None:
        facts.append(f"models {' '.join(entry['models'])}")
    limits = ((name.replace("_", " "), entry[name]) for name in _LIMITS)
    return facts + [f"{name} {number:,}" for name, number in limits if number is not None]


def _expiry(seconds: int | None) -> str:
    if seconds is None:
        return "never expires"
    moment = datetime.fromtimestamp(seconds, UTC)
    word = "expired" if moment <= datetime.now(UTC) else "expires"
    return f"{word} {moment:%Y-%m-%d %H:%M} UTC"
