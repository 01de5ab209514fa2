"""Keeps text that must stay unseen, such as a test's, out of the training samples."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spectrie.errors import ConfigError
from spectrie.training.texts.samples import Sample

__all__ = ["OVERLAP_TOKENS", "Unseen", "read_unseen"]

OVERLAP_TOKENS = 13
"""Tokens in a row that a sample may not share with text that must stay unseen."""


class Unseen:
    """Runs of 13 tokens that no sample may hold."""

    def __init__(
        self,
        texts: Iterable[Sequence[int]],
        *,
        separators: Collection[int] = (),
        common: Iterable[Sequence[int]] = (),
    ) -> None:
        """Collects the runs.

        Args:
            texts: What must stay unseen.
            separators: Tokens that no run reaches across, such as those between the turns of a chat.
            common: What every chat holds, such as the template's system message; its runs may be shared.
        """
        self._separators = frozenset(separators)
        self._runs = {run for text in texts for run in self._runs_of(text)}
        self._runs -= {run for text in common for run in self._runs_of(text)}

    def __len__(self) -> int:
        return len(self._runs)

    def shares(self, sample: Sample) -> bool:
        """Whether the sample holds one of the runs."""
        return any(run in self._runs for run in self._runs_of(sample.token_ids))

    def _runs_of(self, text: Sequence[int]) -> Iterator[tuple[int, ...]]:
        whole = tuple(text)
        begin = 0
        for end, token in enumerate(whole):
            if token in self._separators:
                begin = end + 1
            elif end - begin >= OVERLAP_TOKENS - 1:
                yield whole[end - OVERLAP_TOKENS + 1 : end + 1]

    def split(self, samples: Iterable[Sample]) -> tuple[list[Sample], list[Sample]]:
        """Returns the samples that share nothing, and the others."""
        kept: list[Sample] = []
        dropped: list[Sample] = []
        for sample in samples:
            (dropped if self.shares(sample) else kept).append(sample)
        return kept, dropped


def read_unseen(path: Path, encode: Callable[[str], Sequence[int]]) -> Iterator[Sequence[int]]:
    """Yields the texts of a file: of a trace (`.jsonl`, `.jsonl.xz`) each request, of another file the whole.

    Args:
        path: The file. Lines of a trace are objects with `prompt_ids` and `output_ids`; strings below any
            other key count as texts of their own. Lines that are no object are left out.
        encode: The tokenizer.

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    name = path.name.removesuffix(".xz")
    if name.endswith(".json"):
        yield from map(encode, _strings(_parsed(path, text)))
    elif not name.endswith(".jsonl"):
        yield encode(text)
    else:
        for line in text.splitlines():
            entry = _parsed(path, line)
            if isinstance(entry, dict):
                yield [*entry.get("prompt_ids", ()), *entry.get("output_ids", ())]
                yield from map(encode, _strings(entry))


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)
