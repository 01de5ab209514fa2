"""The first rows of drafts, which the device finds at the ends of its walks, and those behind them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

__all__ = ["ROOT_WORDS", "RootAnswers", "RootPlaces", "RootRows", "RootSections"]

ROOT_WORDS = 5
"""Words of a walk: the first row of its tree, how many rows that has, the first one's sample and position, and
where the request's pages begin among those of the step."""


@dataclass(frozen=True, slots=True)
class RootSections:
    """Numbers of the sections of a packed step that the walks read."""

    tokens: int
    parents: int
    pages: int


@dataclass(frozen=True, slots=True)
class RootPlaces:
    """Where things lie.

    Attributes:
        first_feature: Row of features of the step's first row; beams, which continue states, do not read it.
        first_slot: Slot of the first row's keys; those of others follow.
        first_state: Row of its state, likewise.
        dump: Row of states for rows that stand for none.
        max_context: Positions, exclusive.
        embedded: Tokens that have vectors.
    """

    first_feature: int
    first_slot: int
    first_state: int
    dump: int
    max_context: int
    embedded: int


@dataclass(frozen=True, slots=True)
class RootAnswers:
    """What a head answers of roots, contiguous.

    Attributes:
        ids: int32 [roots, any], numbers of tokens, -1 for none.
        weights: float32, likewise: the greater, the likelier.
        names: int32 [named], the token of each number; None where numbers are tokens.
    """

    ids: torch.Tensor
    weights: torch.Tensor
    names: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class RootRows:
    """Roots, or beams of them, as rows of a level; int32 [rows], contiguous.

    Attributes:
        tokens: Of each, -1 for one without a vector, and where a row stands for none.
        positions: 0 where it stands for none.
        slots: Where its keys go, -1 for nowhere.
        origins: The row of features that it continues, of a beam that of states, -1 for none.
        places: Where its state goes.
        pages: Word of the packed step at which its request's pages begin.
        found: [rows, 4]: token, position, and the row of the step that drew the token, of a beam the number of its
            root, each -1 where it stands for none; and 0.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    origins: torch.Tensor
    places: torch.Tensor
    pages: torch.Tensor
    found: torch.Tensor

    @classmethod
    def empty(cls, rows: int, device: torch.device | str) -> RootRows:
        """Allocates zeros for so many rows."""
        columns = {
            one.name: torch.zeros(rows, dtype=torch.int32, device=device)
            for one in fields(cls)
            if one.name != "found"
        }
        return cls(**columns, found=torch.zeros(rows, 4, dtype=torch.int32, device=device))

    def first(self, rows: int) -> RootRows:
        """Returns views of the first rows."""
        return RootRows(*(getattr(self, one.name)[:rows] for one in fields(self)))
