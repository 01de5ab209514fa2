"""JSON lines from plain or compressed files or standard input, with errors that name the line."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import IO, Any, cast

from spectrie.errors import ConfigError

__all__ = ["Record", "RecordError", "Records", "describe", "is_json_lines", "token_ids"]

MAX_TOKEN_ID = 2**32 - 2
"""The largest token id: the number above it ends documents."""

_SHOWN_CHARACTERS = 40

Record = dict[str, Any]


class RecordError(ConfigError):
    """A line that cannot be used; the message names the field and what was expected."""


def is_json_lines(path: str) -> bool:
    """Whether the name of a file says that it holds JSON lines."""
    return path.removesuffix(".gz").removesuffix(".xz").endswith((".jsonl", ".ndjson"))


class Records:
    """The objects of a `.jsonl`, `.jsonl.gz` or `.jsonl.xz` file, or of standard input (`-`).

    Attributes:
        total_bytes: Size of the file, compressed as it is; None for standard input.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._raw: IO[bytes] | None = None
        self.total_bytes: int | None = None
        if path == "-":
            return
        try:
            self._raw = open(path, "rb")
            self.total_bytes = os.fstat(self._raw.fileno()).st_size
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return "standard input" if self._path == "-" else self._path

    @property
    def bytes_read(self) -> int:
        """How much of `total_bytes` was read."""
        return 0 if self._raw is None or self._raw.closed else self._raw.tell()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Gives each line that is not empty with its number, from 1; once.

        Raises:
            ConfigError: The file breaks off or is not compressed as its name says.
        """
        stream = self._open()
        with closing(stream):
            try:
                for number, line in enumerate(stream, start=1):
                    if line.strip():
                        yield number, line
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                raise ConfigError(f"cannot read {self.name}: {error}") from error
            finally:
                if self._raw is not None:
                    self._raw.close()

    def _open(self) -> IO[bytes]:
        if self._raw is None:
            return sys.stdin.buffer
        if self._path.endswith(".gz"):
            return cast("IO[bytes]", gzip.GzipFile(fileobj=self._raw))
        if self._path.endswith(".xz"):
            return cast("IO[bytes]", lzma.LZMAFile(self._raw))
        return self._raw

    @staticmethod
    def parse(line: bytes) -> Record:
        """Gives the object of a line.

        Raises:
            RecordError: It is not a JSON object.
        """
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"not JSON: {error}") from None
        if not isinstance(record, dict):
            raise RecordError(f"expected a JSON object, got {describe(record)}")
        return record


def token_ids(value: object, field: str) -> list[int]:
    """Gives `value` if it is a list of token ids.

    Raises:
        RecordError: It is not.
    """
    expected = f"{field}: expected a list of ids of 0..{MAX_TOKEN_ID}"
    if not isinstance(value, list):
        raise RecordError(f"{expected}, got {describe(value)}")
    # Bulk checks first: a trace has millions of ids and hardly ever a wrong one.
    if value and (set(map(type, value)) != {int} or min(value) < 0 or max(value) > MAX_TOKEN_ID):
        for index, item in enumerate(value):
            if type(item) is not int or not 0 <= item <= MAX_TOKEN_ID:
                raise RecordError(f"{expected}, got {describe(item)} at index {index}")
    return value


def describe(value: object) -> str:
    """A JSON value as messages show it, long ones cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
