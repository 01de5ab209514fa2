"""Recorded answers of a head, in a file of their own beside the trace that they belong to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spectrie.cli.corpus.records import RecordError, Records, describe
from spectrie.errors import ConfigError

__all__ = ["HeadAnswers", "HeadHeader", "answers_beside", "open_answers", "trace_digest"]

HeadAnswers = list[list[list[list[Any]]]]
"""For each output token and level: likeliest ids, their probabilities, ids of tokens that the head was also
asked about, theirs. Level 1 is what it drafts in place of the output token; level 2 what it drafts behind that
token, and so on down the recorded output."""

_FORMAT = "spectrie head answers 1"
_ENDING = ".head.jsonl.xz"


@dataclass(frozen=True, slots=True)
class HeadHeader:
    """The first line of a file of answers: which trace and which head it belongs to.

    Attributes:
        trace_sha256: Of the trace file's bytes.
        drafter: Name of the head's folder.
        kind: Its kind, such as `eagle3`.
        drafter_hash: Identity of its configuration and weights.
        model_hash: Identity of the model that it was asked beside.
        dtype: In which dtype.
        levels: Levels that were recorded at most.
    """

    trace_sha256: str
    drafter: str
    kind: str
    drafter_hash: str
    model_hash: str
    dtype: str
    levels: int

    def record(self) -> dict[str, Any]:
        """The object of the line."""
        return {"format": _FORMAT, **asdict(self)}

    @classmethod
    def read(cls, record: dict[str, Any]) -> HeadHeader:
        """Reads the object of the line.

        Raises:
            RecordError: It is no such line, or a field is missing or not what it should be.
        """
        if record.get("format") != _FORMAT:
            raise RecordError(f"expected the format {_FORMAT!r}, got {describe(record)}")
        texts = ("trace_sha256", "drafter", "kind", "drafter_hash", "model_hash", "dtype")
        for field, wanted in (*((text, str) for text in texts), ("levels", int)):
            if not isinstance(record.get(field), wanted):
                raise RecordError(f"{field}: got {describe(record.get(field))}")
        return cls(**{field: record[field] for field in (*texts, "levels")})


def answers_beside(trace: str) -> str:
    """Where the answers for a trace lie by default: `chat.head.jsonl.xz` beside `chat.jsonl`, however that is
    compressed."""
    name = Path(trace).name
    for ending in (".xz", ".gz"):
        name = name.removesuffix(ending)
    return str(Path(trace).with_name(Path(name).stem + _ENDING))


def trace_digest(trace: str) -> str:
    """The SHA-256 of a trace file's bytes, in hex.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        with open(trace, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot read {trace}: {error.strerror}") from error


def open_answers(path: str, trace: str) -> tuple[HeadHeader, Iterator[HeadAnswers]]:
    """Opens the answers for a trace; gives its header, and the answers of each request in order.

    Raises:
        ConfigError: The file cannot be read, is no such file, or belongs to another trace. The iterator
            raises it where it breaks off.
    """
    records = Records(path)
    lines = records.lines()
    try:
        header = HeadHeader.read(records.parse(next(lines)[1]))
    except StopIteration:
        raise ConfigError(f"{path} is empty") from None
    except RecordError as error:
        raise ConfigError(f"{path}: line 1: {error}") from None
    if header.trace_sha256 != trace_digest(trace):
        raise ConfigError(
            f"{path} holds answers for another trace than {trace}, or that was changed: record them again"
        )
    return header, _answers(path, records, lines)


def _answers(
    path: str, records: Records, lines: Iterator[tuple[int, bytes]]
) -> Iterator[HeadAnswers]:
    for number, line in lines:
        try:
            head = records.parse(line).get("head")
            if not isinstance(head, list):
                raise RecordError(f"head: expected a list, got {describe(head)}")
        except RecordError as error:
            raise ConfigError(f"{path}: line {number}: {error}") from None
        yield head
