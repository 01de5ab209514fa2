"""The kinds by name. A new kind is a file beside this one and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from spectrie.training.kinds.base import Head
from spectrie.training.kinds.dflash import Dflash
from spectrie.training.kinds.dflash2 import Dflash2
from spectrie.training.kinds.eagle2 import Eagle2
from spectrie.training.kinds.eagle3 import Eagle3, default_taps
from spectrie.training.kinds.mtp import Mtp
from spectrie.training.kinds.peagle import Peagle
from spectrie.training.target import Target

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of head.

    Attributes:
        taps: Layers whose outputs it takes, of a model with so many.
        make: A head before training, of the target, the taps, its vocabulary and the levels it is trained for.
        final_norm: Whether it takes the output of the target's last norm, behind those layers.
        is_cut: Whether its form can name some of the target's tokens only, or find them by low rank.
        least_levels: Fewest levels that its form can have.
    """

    taps: Callable[[int], tuple[int, ...]]
    make: Callable[[Target, Sequence[int], torch.Tensor, int], Head]
    final_norm: bool = False
    is_cut: bool = True
    least_levels: int = 1

    def width(self, target: Target) -> int:
        """Numbers of a feature."""
        parts = len(self.taps(target.config.num_layers)) + self.final_norm
        return parts * target.config.hidden_size


def _no_layers(num_layers: int) -> tuple[int, ...]:
    """The last norm's output is all that they take."""
    return ()


KINDS: dict[str, Kind] = {
    "eagle3": Kind(default_taps, lambda target, taps, ids, _: Eagle3(target, taps, ids)),
    "eagle2": Kind(_no_layers, lambda target, _, ids, __: Eagle2(target, ids), final_norm=True),
    "mtp": Kind(_no_layers, lambda target, _, ids, __: Mtp(target, ids), final_norm=True),
    "peagle": Kind(default_taps, lambda target, taps, ids, _: Peagle(target, taps, ids)),
    "dflash": Kind(default_taps, Dflash, is_cut=False, least_levels=2),
    "dflash2": Kind(default_taps, Dflash2, is_cut=False, least_levels=2),
}
