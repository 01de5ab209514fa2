"""Secrets that a user keeps in a file."""

from __future__ import annotations

from pathlib import Path

from spectrie.errors import ConfigError

__all__ = ["read_token"]


def read_token(flag: str, path: str | None) -> str | None:
    """The secret in a file, without the white space around it; None without a file.

    Raises:
        ConfigError: Naming `flag`: the file cannot be read, or holds none that a header can carry.
    """
    if path is None:
        return None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{flag} {path}: {error}") from error
    if not token or not token.isascii():
        raise ConfigError(f"{flag} {path}: the file holds no token, one of ASCII characters")
    return token
