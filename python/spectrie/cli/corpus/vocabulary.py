"""The tokenizer of a model, found without anything that only a worker needs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spectrie.errors import ConfigError, ModelError
from spectrie.model.files.store import Report, entry, models_folder

if TYPE_CHECKING:
    from spectrie._core import Tokenizer

__all__ = ["Vocabulary", "load_vocabulary", "stored_models"]

_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A model's tokenizer.

    Attributes:
        name: The model as the user wrote it.
        folder: Where its tokenizer.json lies.
        fingerprint: Names the vocabulary; see `spectrie._core.tokenizer_fingerprint`.
        tokenizer: Turns text into ids.
    """

    name: str
    folder: Path
    fingerprint: str
    tokenizer: Tokenizer


def stored_models() -> dict[str, Path]:
    """The folders of the stored models that have a tokenizer, by name."""
    folder = models_folder()
    if not folder.is_dir():
        return {}
    found = (path for path in sorted(folder.iterdir()) if not path.name.startswith("."))
    return {path.name: path for path in found if (path / _FILE).is_file()}


def load_vocabulary(model: str | None, report: Report) -> Vocabulary:
    """Loads a tokenizer.

    Args:
        model: A folder with tokenizer.json, that file, a stored model's name, or anything else that
            `spectrie models fetch` takes; None for the only model that is stored.
        report: Gets lines of progress while a model is fetched.

    Raises:
        ConfigError: `model` is None and there is not exactly one; or fetching needs more packages.
        ModelError: The model or its tokenizer cannot be found or read.
    """
    from spectrie._core import Tokenizer, tokenizer_fingerprint

    name, folder = _only_stored() if model is None else (model, _folder_of(model, report))
    return Vocabulary(name, folder, tokenizer_fingerprint(folder), Tokenizer.from_folder(folder))


def _only_stored() -> tuple[str, Path]:
    stored = stored_models()
    if len(stored) == 1:
        return next(iter(stored.items()))
    have = f"stored are {', '.join(stored)}" if stored else f"none is stored in {models_folder()}"
    raise ConfigError(f"whose tokenizer? give --model MODEL, a name or a folder ({have})")


def _folder_of(model: str, report: Report) -> Path:
    path = Path(model).expanduser()
    if path.name == _FILE and path.is_file():
        return path.absolute().parent
    if (path / _FILE).is_file():
        return path.absolute()
    if os.sep not in model and (entry(model) / _FILE).is_file():
        return entry(model)
    try:
        from spectrie.model.sources.resolution import resolve
    except ImportError as error:
        raise ConfigError(
            f"{model!r} is neither a folder with {_FILE} nor a stored model, and fetching one needs "
            "more packages: pip install 'spectrie[cpu]'"
        ) from error
    folder = resolve(model, report=report).folder
    if not (folder / _FILE).is_file():
        raise ModelError(f"{folder} has no {_FILE}, so text cannot be turned into its tokens")
    return folder
