"""Documents for a corpus: from text, JSON lines and files of token ids, tokenized in batches."""

from __future__ import annotations

import array
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from spectrie.cli.corpus.records import (
    Record,
    RecordError,
    Records,
    describe,
    is_json_lines,
    token_ids,
)
from spectrie.cli.corpus.vocabulary import Vocabulary
from spectrie.errors import ConfigError
from spectrie.printing.progress import Progress

if TYPE_CHECKING:
    from spectrie._core import CorpusBuilder

__all__ = ["DocumentReader", "build_from_records"]

_BATCH_CHARACTERS = 1 << 22
# Longer texts are tokenized in parts, cut at line ends, so that all cores have work.
_PART_CHARACTERS = 1 << 17
_SEPARATOR = 2**32 - 1
_ID_BYTES = 4
_READ_BYTES = 1 << 22
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\r?\n[ \t]*)+")
_TEXT_FIELDS = ("text", "prompt", "output")


class DocumentReader:
    """Reads files of any supported kind into a corpus builder.

    Attributes:
        num_documents: Documents read so far.
        num_tokens: Tokens of those that were tokenized and added.
        largest_id: The largest token id among them.
        num_skipped: Files of a folder that were no text.
    """

    def __init__(
        self, builder: CorpusBuilder, vocabulary: Callable[[], Vocabulary], split: str = "whole"
    ) -> None:
        """Begins.

        Args:
            builder: Takes the documents.
            vocabulary: Called when there is text.
            split: `whole` takes a text file as one document, `blank-line` each paragraph.
        """
        self._builder = builder
        self._vocabulary = vocabulary
        self._split = split
        # Each document that waits: pieces of text, or ids already.
        self._waiting: list[list[str | list[int]]] = []
        self._waiting_characters = 0
        self.num_documents = self.num_tokens = self.largest_id = self.num_skipped = 0

    def read(self, path: Path, *, named: bool = True) -> Iterator[int]:
        """Reads one file; gives the bytes of it that were read, now and then.

        Args:
            path: `.jsonl` (also `.gz`, `.xz`), `.u32`, or else text.
            named: Whether the user named it: one from a folder is left out when it is no text.

        Raises:
            ConfigError: The file, or a line of it, cannot be used.
        """
        if is_json_lines(path.name):
            yield from self._json_lines(path)
        elif path.suffix == ".u32":
            self._ids_file(path)
            yield path.stat().st_size
        else:
            self._text_file(path, named)
            yield path.stat().st_size

    def flush(self) -> None:
        """Tokenizes and adds what waits.

        Raises:
            ConfigError: The tokenizer refuses a text, or the corpus is full.
        """
        texts = [piece for pieces in self._waiting for piece in pieces if isinstance(piece, str)]
        try:
            encoded = iter(self._vocabulary().tokenizer.encode_batch(texts) if texts else [])
            for pieces in self._waiting:
                ids: list[int] = []
                for piece in pieces:
                    ids += next(encoded) if isinstance(piece, str) else piece
                self._builder.push(ids)
                self.num_tokens += len(ids)
                self.largest_id = max(self.largest_id, max(ids, default=0))
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self._waiting, self._waiting_characters = [], 0

    def _add(self, *pieces: str | list[int]) -> None:
        parts: list[str | list[int]] = []
        for piece in pieces:
            parts += _parts(piece) if isinstance(piece, str) else [piece]
            self._waiting_characters += len(piece)
        self._waiting.append(parts)
        self.num_documents += 1
        if self._waiting_characters >= _BATCH_CHARACTERS:
            self.flush()

    def _json_lines(self, path: Path) -> Iterator[int]:
        records = Records(str(path))
        before = 0
        for number, line in records.lines():
            try:
                self._add(*_pieces(records.parse(line)))
            except RecordError as error:
                raise ConfigError(f"{path}: line {number}: {error}") from None
            read = records.bytes_read
            yield read - before
            before = read
        yield (records.total_bytes or before) - before

    def _ids_file(self, path: Path) -> None:
        size = path.stat().st_size
        if size % _ID_BYTES:
            raise ConfigError(f"{path}: expected 4 bytes a token id, got {size} bytes")
        document: list[int] = []
        try:
            with path.open("rb") as file:
                for ids in _ids_of(file):
                    start = 0
                    for end in _separators(ids):
                        document += ids[start:end]
                        self._add_ids(document)
                        document = []
                        start = end + 1
                    document += ids[start:]
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        self._add_ids(document)

    def _add_ids(self, document: list[int]) -> None:
        if document:
            self._add(document)

    def _text_file(self, path: Path, named: bool) -> None:
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            if not named:
                self.num_skipped += 1
                return
            raise ConfigError(f"{path} is no UTF-8 text: {error.reason} at {error.start}") from None
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        if not named and "\0" in text:
            self.num_skipped += 1
            return
        documents = _BLANK_LINES.split(text) if self._split == "blank-line" else [text]
        for document in documents:
            if document.strip():
                self._add(document)


def build_from_records(path: str, built: Path, vocabulary: Callable[[], Vocabulary]) -> None:
    """Builds a corpus file for one replay from JSON lines.

    Args:
        path: Lines of `{"ids": [...]}`, `{"text": "..."}` or recorded requests.
        built: The file to write; the corpus is called `replay-` and the file's name.
        vocabulary: Called when there is text.

    Raises:
        ConfigError: A line cannot be used.
    """
    from spectrie._core import CorpusBuilder

    builder = CorpusBuilder(f"replay-{built.stem}", "")
    reader = DocumentReader(builder, vocabulary)
    total_bytes = Path(path).stat().st_size if Path(path).is_file() else None
    done = 0
    with Progress(f"corpus {path}", total_bytes) as progress:
        for num_bytes in reader.read(Path(path)):
            done += num_bytes
            progress.show(done, f"{reader.num_documents:,} documents")
        reader.flush()
        try:
            builder.finish(built)
        except ValueError as error:
            raise ConfigError(str(error)) from None


def _ids_of(file: BinaryIO) -> Iterator[array.array[int]]:
    """The ids of a file, a part at a time."""
    while part := file.read(_READ_BYTES):
        ids = array.array("I")
        ids.frombytes(part[: len(part) // _ID_BYTES * _ID_BYTES])
        if sys.byteorder == "big":
            ids.byteswap()
        yield ids


def _separators(ids: array.array[int]) -> Iterator[int]:
    end = -1
    while True:
        try:
            end = ids.index(_SEPARATOR, end + 1)
        except ValueError:
            return
        yield end


def _pieces(record: Record) -> list[str | list[int]]:
    """The parts of a line's document: ids or text, a prompt before its output."""
    if "ids" in record:
        return [token_ids(record["ids"], "ids")]
    pieces: list[str | list[int]] = []
    for field in _TEXT_FIELDS:
        if f"{field}_ids" in record:
            pieces.append(token_ids(record[f"{field}_ids"], f"{field}_ids"))
        elif field in record:
            if not isinstance(record[field], str):
                raise RecordError(f"{field}: expected text, got {describe(record[field])}")
            pieces.append(record[field])
    if not pieces:
        raise RecordError(
            'expected {"text": ...}, {"ids": [...]} or {"prompt": ..., "output": ...}, got '
            f"{describe(record)}"
        )
    return pieces


def _parts(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PART_CHARACTERS:
        end = text.find("\n", start + _PART_CHARACTERS) + 1
        if not end:
            break
        yield text[start:end]
        start = end
    yield text[start:]
