"""Files of a head's answers, as `spectrie replay --head-answers` reads them."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from bench.draft.trace import write_lines

__all__ = [
    "ANSWERS",
    "ENDING",
    "FORMAT",
    "HeadAnswers",
    "answers_for",
    "lines_of",
    "read_answers",
    "write_answers",
]

HeadAnswers = list[list[list[list[Any]]]]
"""For each output token and level: likeliest ids, their probabilities, ids of tokens that the head was also
asked about, theirs. Level 1 is what it drafts in place of the output token, level 2 what it drafts behind that
token, and so on down the recorded output."""

ANSWERS = Path(__file__).resolve().parents[1] / "heads" / "answers"
"""Answers of the head that ships along the traces of each split, a folder each."""

FORMAT = "spectrie head answers 1"
ENDING = ".head.jsonl.xz"


def answers_for(trace: Path) -> str:
    """Name of the file of answers for a trace: `chat.head.jsonl.xz` for `chat.jsonl`, however that is compressed."""
    name = trace.name
    for ending in (".xz", ".gz"):
        name = name.removesuffix(ending)
    return Path(name).stem + ENDING


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a `.jsonl`, `.jsonl.gz` or `.jsonl.xz` that are not empty."""
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    opened: IO[str] = openers.get(path.suffix, open)(path, "rt", encoding="utf-8")
    with opened as lines:
        yield from (line for line in lines if line.strip())


def write_answers(
    path: Path, trace: Path, facts: dict[str, Any], answers: Iterable[HeadAnswers]
) -> None:
    """Writes the answers for a trace.

    Args:
        path: The file.
        trace: The trace; its hash goes into the first line.
        facts: What else does: of the head `drafter`, `kind` and `drafter_hash`, of the model `model_hash`
            and `dtype`, and the `levels` that were asked.
        answers: Of each request in turn.
    """
    header = {"format": FORMAT, "trace_sha256": _digest(trace), **facts}
    lines = [json.dumps(header) + "\n"]
    lines += (json.dumps({"head": head}, separators=(",", ":")) + "\n" for head in answers)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_lines(path, lines)


def read_answers(path: Path, trace: Path) -> tuple[dict[str, Any], list[HeadAnswers]]:
    """The first line of a file of answers, and those of each request.

    Raises:
        ValueError: It belongs to another trace.
    """
    records = (json.loads(line) for line in lines_of(path))
    header: dict[str, Any] = next(records, {})
    if header.get("format") != FORMAT or header["trace_sha256"] != _digest(trace):
        raise ValueError(f"{path} holds no answers for {trace}: record them again")
    return header, [record["head"] for record in records]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
