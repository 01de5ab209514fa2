"""Sampling defaults of a model: its generation_config.json."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from spectrie.errors import ModelError

__all__ = ["SamplingDefaults", "read_sampling_defaults"]


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What a request that says nothing gets.

    Attributes:
        temperature: 0 is greedy.
        top_p: Keeps the smallest set of likeliest tokens with this mass; 1 keeps all.
        top_k: Keeps the likeliest k tokens; 0 keeps all.
        min_p: Keeps tokens at least this likely relative to the likeliest; 0 keeps all.
        repetition_penalty: Divides positive and multiplies negative logits of seen tokens.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


def read_sampling_defaults(folder: Path) -> SamplingDefaults:
    """Reads generation_config.json of a model folder; members it lacks keep their defaults.

    Raises:
        ModelError: The file is not JSON, or a member is not a finite number.
    """
    path = folder / "generation_config.json"
    if not path.is_file():
        return SamplingDefaults()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not a JSON object")

    def number(name: str, default: float) -> float:
        value = content.get(name)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise ModelError(f"{path}: {name} is {value!r}, a finite number is needed")
        return float(value)

    return SamplingDefaults(
        temperature=number("temperature", 1.0),
        top_p=number("top_p", 1.0),
        top_k=int(number("top_k", 0)),
        min_p=number("min_p", 0.0),
        repetition_penalty=number("repetition_penalty", 1.0),
    )
