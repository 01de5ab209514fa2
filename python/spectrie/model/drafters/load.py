"""Reads the drafter of a folder, whichever kind it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.drafters import eagle2, eagle3, mtp
from spectrie.model.drafters.description import Drafter, DrafterKind, Target
from spectrie.model.drafters.origin import read_origin
from spectrie.model.files.weights import Weights

__all__ = ["read_drafter"]

_KINDS: tuple[DrafterKind, ...] = (eagle3, eagle2, mtp)


def read_drafter(folder: Path, target: Target) -> Drafter:
    """Returns the drafter of a folder: `config.json` and safetensors.

    Raises:
        ModelError: A file cannot be read, the kind is not known, or it does not fit the target; the
            message names what was found and what was expected.
    """
    path = folder / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read the drafter's {path}: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path} holds a {type(values).__name__}, expected a JSON object")
    weights = Weights(folder)
    # A model's own layer lies beside the model.
    layer = mtp.layer_tensors(weights)
    kind = mtp if layer else _kind(values, path)
    drafter = kind.read(values, weights, target, folder)
    weights.check_all_taken(set(weights.names()) - set(layer) if layer else ())
    return replace(drafter, origin=read_origin(weights, str(folder)))


def _kind(values: dict[str, Any], path: Path) -> DrafterKind:
    named = values.get("architectures") or []
    for kind in _KINDS:
        if isinstance(named, list) and len(named) == 1 and named[0] in kind.ARCHITECTURES:
            return kind
    known = sorted(name for kind in _KINDS for name in kind.ARCHITECTURES)
    raise ModelError(
        f"{path}: architectures is {named!r}, which is no drafter that is supported; supported: "
        f"{', '.join(known)}"
    )
