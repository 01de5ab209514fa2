"""The kinds by name. A new kind is a file beside this one and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from spectrie.training.kinds import eagle3
from spectrie.training.kinds.base import Head
from spectrie.training.target import Target

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of head.

    Attributes:
        taps: Layers whose outputs it takes, of a model with so many.
        make: A head before training, of the target, the taps and its vocabulary.
    """

    taps: Callable[[int], tuple[int, ...]]
    make: Callable[[Target, Sequence[int], torch.Tensor], Head]


KINDS: dict[str, Kind] = {"eagle3": Kind(eagle3.default_taps, eagle3.Eagle3)}
