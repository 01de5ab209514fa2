"""From what a user writes as `--bigrams` to the table that a replay drafts from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spectrie.errors import ConfigError
from spectrie.model.files.bigram_files import bigrams_file, model_hash_of

if TYPE_CHECKING:
    from spectrie._core import Bigrams

__all__ = ["load_bigrams"]


def load_bigrams(
    choice: str, model_folder: Path | None, report: Callable[[str], None]
) -> Bigrams | None:
    """Opens the table.

    Args:
        choice: `auto` for what is stored for the model, a file, or `off`.
        model_folder: The model; None when none was named. Then `auto` finds nothing, and a file is
            taken for the table of the model that its name says.
        report: Gets a line on what was found.

    Raises:
        ConfigError: The file cannot be read, is damaged or of another model.
    """
    from spectrie._core import Bigrams

    if choice == "off" or (choice == "auto" and model_folder is None):
        return None
    model_hash = model_hash_of(model_folder) if model_folder is not None else None
    if choice == "auto":
        stored = bigrams_file(model_hash) if model_hash is not None else None
        if stored is None or not stored.is_file():
            return None
        path = stored
    else:
        path = Path(choice).expanduser()
    try:
        table = Bigrams.open(path, model_hash or path.stem)
    except ValueError as error:
        raise ConfigError(f"--bigrams {choice}: {error}") from None
    report(f"bigrams: {table.num_known:,} of {len(table):,} tokens, from {path}")
    return table
