"""Reads the drafter of a folder, whichever kind it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.config.reader import read_object
from spectrie.model.drafters import dflash, eagle2, eagle3, model, mtp
from spectrie.model.drafters.description import Drafter, DrafterKind, Target
from spectrie.model.drafters.origin import read_origin
from spectrie.model.files.weights import Weights

__all__ = ["read_drafter"]

_KINDS: tuple[DrafterKind, ...] = (eagle3, eagle2, dflash, mtp)


def read_drafter(folder: Path, target: Target) -> Drafter:
    """Returns the drafter of a folder: `config.json` and safetensors.

    Raises:
        ModelError: A file cannot be read, the kind is not known, or it does not fit the target; the
            message names what was found and what was expected.
    """
    path = folder / "config.json"
    values = read_object(path, "the drafter's ")
    weights = Weights(folder)
    kind, ignored = _kind_of(values, weights, path)
    try:
        drafter = kind.read(values, weights, target, folder)
    except (ValueError, IndexError) as error:
        raise ModelError(f"{folder}: a tensor has a shape that no drafter has: {error}") from error
    weights.check_all_taken(ignored)
    return replace(drafter, origin=read_origin(weights, str(folder)))


def _kind_of(
    values: dict[str, Any], weights: Weights, path: Path
) -> tuple[DrafterKind, Iterable[str]]:
    """Returns the kind, and the tensors that it need not read."""
    # A model's own layer lies beside the model.
    layer = mtp.layer_tensors(weights)
    if layer:
        return mtp, set(weights.names()) - set(layer)
    kind = _kind(values, path, is_complete=model.is_complete(weights))
    return kind, model.left_over(weights) if kind is model else ()


def _kind(values: dict[str, Any], path: Path, *, is_complete: bool) -> DrafterKind:
    named = values.get("architectures") or []
    for kind in (model, *_KINDS) if is_complete else _KINDS:
        if isinstance(named, list) and len(named) == 1 and named[0] in kind.ARCHITECTURES:
            return kind
    known = sorted(name for kind in _KINDS for name in kind.ARCHITECTURES)
    raise ModelError(
        f"{path}: architectures is {named!r}, which is no drafter that is supported; supported: "
        f"{', '.join(known)}, and complete models of {', '.join(sorted(model.ARCHITECTURES))}"
    )
