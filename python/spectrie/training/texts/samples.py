"""Training samples: token ids, and which of them a head learns to guess."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spectrie.errors import ConfigError

__all__ = ["Sample", "SampleFile"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One text.

    Attributes:
        token_ids: The whole text.
        answers: Half-open ranges of it, ascending, that the head learns to guess; the rest is context.
        origin: Where the text comes from.
    """

    token_ids: list[int]
    answers: list[tuple[int, int]]
    origin: str

    @property
    def num_answer_tokens(self) -> int:
        """Tokens that the head learns to guess."""
        return sum(end - start for start, end in self.answers)

    def cut(self, max_tokens: int) -> Sample:
        """Returns the first `max_tokens` tokens."""
        if len(self.token_ids) <= max_tokens:
            return self
        answers = [(start, min(end, max_tokens)) for start, end in self.answers]
        kept = [(start, end) for start, end in answers if start < end]
        return Sample(self.token_ids[:max_tokens], kept, self.origin)


class SampleFile:
    """Groups of samples in a file of JSON lines that grows; a group that was cut off is dropped."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or prepares a new one.

        Raises:
            ConfigError: The file holds something else.
        """
        self._path = path
        self.num_groups = 0
        self._bytes = 0
        if path.exists():
            for _, end in self._groups():
                self.num_groups += 1
                self._bytes = end

    def append(self, samples: Iterable[Sample]) -> None:
        """Writes a group: all of it survives a crash, or nothing."""
        lines = [json.dumps(asdict(sample), separators=(",", ":")) for sample in samples]
        lines.append(json.dumps({"group": self.num_groups}))
        data = ("\n".join(lines) + "\n").encode()
        with self._path.open("ab") as file:
            file.truncate(self._bytes)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.num_groups += 1
        self._bytes += len(data)

    def __iter__(self) -> Iterator[Sample]:
        if self.num_groups:
            for group, _ in self._groups():
                yield from group

    def _groups(self) -> Iterator[tuple[list[Sample], int]]:
        """Yields whole groups and the byte where each ends."""
        group: list[Sample] = []
        end = 0
        with self._path.open("rb") as file:
            for line in file:
                end += len(line)
                if not line.endswith(b"\n"):
                    return
                entry = self._entry(line)
                if "group" in entry:
                    yield group, end
                    group = []
                else:
                    group.append(_sample(entry))

    def _entry(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{self._path} is damaged: {error}; remove it") from error
        if not isinstance(entry, dict) or not ({"group", "token_ids"} & entry.keys()):
            raise ConfigError(f"{self._path} holds no samples; remove it or choose another folder")
        return entry


def _sample(entry: dict[str, Any]) -> Sample:
    return Sample(
        list(entry["token_ids"]),
        [(start, end) for start, end in entry["answers"]],
        str(entry["origin"]),
    )
