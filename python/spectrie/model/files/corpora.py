"""The folder of built corpora, and from what a user writes as a corpus to its file."""

from __future__ import annotations

from pathlib import Path

from spectrie.errors import ConfigError
from spectrie.model.files.store import cache_folder

__all__ = ["CORPUS_SUFFIX", "built_corpora", "corpora_folder", "corpus_file", "find_corpus"]

CORPUS_SUFFIX = ".corpus"
"""How the name of a built corpus file ends."""


def corpora_folder() -> Path:
    """Gives the folder with one file per built corpus. It need not exist."""
    return cache_folder() / "corpora"


def corpus_file(name: str) -> Path:
    """Gives the file in which the corpus `name` lies or would lie.

    Raises:
        ConfigError: Not a name: empty, hidden, or with a folder in it.
    """
    if not name or name.startswith(".") or Path(name).name != name:
        raise ConfigError(f"{name!r} is not a name for a corpus: give one like 'our-code'")
    return corpora_folder() / f"{name}{CORPUS_SUFFIX}"


def find_corpus(name_or_path: str) -> Path:
    """Gives the file of a built corpus: a path to one, or the name it was built with.

    Raises:
        ConfigError: There is neither; the message names the corpora that are built.
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
        f"(built are: {names}); build it with: spectrie corpus build FILES... -o NAME"
    )


def built_corpora() -> list[Path]:
    """Gives the file of every built corpus, by name."""
    folder = corpora_folder()
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.glob(f"*{CORPUS_SUFFIX}") if path.is_file() and path.name[0] != "."
    )
