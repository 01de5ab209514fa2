"""The code corpora: too big to commit, rebuilt from pinned packages and checked by hash."""

from __future__ import annotations

import array
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support.packages import Package, cache_folder, fetch, members

__all__ = ["LOCK", "SEPARATOR", "CorpusLock", "digest", "encode", "read_ids", "write_ids"]

LOCK = Path(__file__).with_name("corpus.lock")
SEPARATOR = 0xFFFF_FFFF


def encode(texts: list[str], tokenizer_file: Path) -> list[list[int]]:
    """The ids of each text, without special tokens around it."""
    from spectrie import _core

    tokenizer = _core.Tokenizer.from_folder(str(tokenizer_file.parent))
    return [list(tokenizer.encode(text)) for text in texts]


def digest(documents: list[list[int]]) -> str:
    """SHA-256 of the ids as little-endian 32-bit words, a separator after each document."""
    return hashlib.sha256(_words(documents)).hexdigest()


def write_ids(path: Path, documents: list[list[int]]) -> None:
    """Writes documents as little-endian 32-bit ids, a separator after each."""
    part = path.with_suffix(".part")
    part.write_bytes(_words(documents))
    part.rename(path)


def read_ids(path: Path) -> list[list[int]]:
    """The documents of such a file."""
    words = array.array("I", path.read_bytes())
    if sys.byteorder == "big":
        words.byteswap()
    documents: list[list[int]] = []
    document: list[int] = []
    for word in words.tolist():
        if word == SEPARATOR:
            documents.append(document)
            document = []
        else:
            document.append(word)
    return documents


@dataclass(frozen=True, slots=True)
class CorpusLock:
    """One set of documents, pinned down to the member.

    Attributes:
        name: Name of the set, such as `corpus`.
        sources: Each package with the names of its members, in order.
        sha256: `digest` of the ids.
    """

    name: str
    sources: tuple[tuple[Package, tuple[str, ...]], ...]
    sha256: str

    @staticmethod
    def load(name: str, path: Path = LOCK) -> CorpusLock:
        """Reads the lock of one set."""
        entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))[name]
        sources = tuple(
            (Package(one["name"], one["file"], one["sha256"]), tuple(one["members"]))
            for one in entry["sources"]
        )
        return CorpusLock(name, sources, entry["ids_sha256"])

    def entry(self, documents: list[list[int]]) -> dict[str, Any]:
        """What the lock file says of this set."""
        return {
            "ids_sha256": self.sha256,
            "num_tokens": sum(map(len, documents)),
            "num_documents": len(documents),
            "sources": [
                {
                    "name": package.name,
                    "file": package.file,
                    "sha256": package.sha256,
                    "members": list(names),
                }
                for package, names in self.sources
            ],
        }

    def documents(self, tokenizer_file: Path) -> list[list[int]]:
        """The ids of every document, from the cache or built from the packages.

        Raises:
            ValueError: The ids are not those that were pinned, or a package lacks a member.
            OSError: A package is not in the cache and the index cannot be reached.
        """
        kept = cache_folder() / f"{self.name}-{self.sha256[:16]}.u32"
        if kept.exists():
            documents = read_ids(kept)
            if digest(documents) == self.sha256:
                return documents
        texts: list[str] = []
        for number, (package, names) in enumerate(self.sources, 1):
            texts += _texts(package, names)
            print(f"  {self.name}: package {number}/{len(self.sources)}", file=sys.stderr)
        documents = encode(texts, tokenizer_file)
        found = digest(documents)
        if found != self.sha256:
            raise ValueError(
                f"the ids of the set {self.name} have sha256 {found}, expected {self.sha256}:"
                " the tokenizer is another one than the traces were made with"
            )
        write_ids(kept, documents)
        return documents


def _words(documents: list[list[int]]) -> bytes:
    words = array.array("I")
    for document in documents:
        words.extend(document)
        words.append(SEPARATOR)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def _texts(package: Package, names: tuple[str, ...]) -> list[str]:
    wanted = set(names)
    found = {name: data for name, data in members(fetch(package)) if name in wanted}
    missing = wanted - set(found)
    if missing:
        raise ValueError(f"{package.file} has no {', '.join(sorted(missing))}")
    return [found[name].decode("utf-8") for name in names]
