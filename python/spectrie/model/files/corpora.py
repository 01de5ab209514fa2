"""The folder of built corpora, and the file of a corpus given by name or path."""

from __future__ import annotations

from pathlib import Path

from spectrie.errors import ConfigError
from spectrie.model.files.store import cache_folder

__all__ = ["CORPUS_SUFFIX", "built_corpora", "corpora_folder", "corpus_file", "find_corpus"]

CORPUS_SUFFIX = ".corpus"
"""Suffix of a built corpus file."""


def corpora_folder() -> Path:
    """Returns the folder with one file per built corpus. It need not exist."""
    return cache_folder() / "corpora"


def corpus_file(name: str) -> Path:
    """Returns the path of the corpus `name`, present or not.

    Raises:
        ConfigError: The name is empty, hidden, or contains a folder.
    """
    if not name or name.startswith(".") or Path(name).name != name:
        raise ConfigError(f"{name!r} is not a valid corpus name: give one like 'our-code'")
    return corpora_folder() / f"{name}{CORPUS_SUFFIX}"


def find_corpus(name_or_path: str) -> Path:
    """Returns the file of a built corpus, given by its path or the name it was built with.

    Raises:
        ConfigError: There is no such corpus; the message lists those that are built.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path.absolute()
    if path.name == name_or_path and not name_or_path.startswith("."):
        built = corpus_file(name_or_path.removesuffix(CORPUS_SUFFIX))
        if built.is_file():
            return built
    names = ", ".join(file.stem for file in built_corpora()) or "none"
    raise ConfigError(
        f"no corpus {name_or_path!r}: neither a file nor built in {corpora_folder()} "
        f"(built corpora: {names}); build it with: spectrie corpus build FILES... -o NAME"
    )


def built_corpora() -> list[Path]:
    """Returns the file of every built corpus, sorted by name."""
    folder = corpora_folder()
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.glob(f"*{CORPUS_SUFFIX}") if path.is_file() and path.name[0] != "."
    )
