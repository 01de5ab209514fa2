"""Whether two models number the same tokens alike: one can draft for the other only then."""

from __future__ import annotations

import json
from pathlib import Path

from spectrie import _core
from spectrie.errors import ModelError

__all__ = ["refuse_other_tokenizer"]


def refuse_other_tokenizer(folder: Path, target: Path) -> None:
    """Checks that a model's tokenizer is the target's.

    Files of equal bytes are; of others, as tools write the same tokenizer in several ways, every token must
    have the same id in both.

    Args:
        folder: The model that is to draft.
        target: The model that it drafts for.

    Raises:
        ModelError: A `tokenizer.json` is missing or cannot be read, or they differ; the message names both
            hashes and the first id that means another token.
    """
    if folder.resolve() == target.resolve():
        return
    files = [one / "tokenizer.json" for one in (folder, target)]
    for file in files:
        if not file.is_file():
            raise ModelError(
                f"{folder} cannot draft: {file} is missing, so that nobody knows whether both models number "
                "the same tokens alike"
            )
    hashes = [_core.tokenizer_fingerprint(str(file)) for file in files]
    if hashes[0] == hashes[1]:
        return
    own, others = (_tokens(file) for file in files)
    different = sorted(id for id in own.keys() | others.keys() if own.get(id) != others.get(id))
    if different:
        first = different[0]
        raise ModelError(
            f"{folder} has another tokenizer (hash {hashes[0]}) than the model (hash {hashes[1]}): id {first} "
            f"is {own.get(first)!r}, expected {others.get(first)!r}, and so on for {len(different)} ids; a "
            "model drafts only for models of its tokenizer"
        )


def _tokens(file: Path) -> dict[int, str]:
    """Returns what each id of a `tokenizer.json` means."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        vocabulary = values["model"]["vocab"]
        if isinstance(vocabulary, dict):
            tokens = {int(id): str(token) for token, id in vocabulary.items()}
        else:
            # Unigram: pairs of token and score, in order.
            tokens = {id: str(token) for id, (token, _) in enumerate(vocabulary)}
        for added in values.get("added_tokens") or []:
            tokens[int(added["id"])] = str(added["content"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"cannot read the tokens of {file}: {error!r}") from error
    return tokens
