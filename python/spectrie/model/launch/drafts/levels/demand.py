"""Which levels are computed behind a step: as those before it were asked."""

from __future__ import annotations

from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch.drafts.memory import BEAMS

__all__ = ["BeamsAt", "Demand"]

_LEAST_SHARE = 4
"""A level is computed behind a step if the one before was asked about at least one in so many of its requests."""


class BeamsAt(Enum):
    """When a second level is launched, if there is room for it."""

    NEVER = auto()
    STEP = auto()
    """With the first."""
    ASKED = auto()
    """When the first is asked, behind what scores its tokens: these need not wait for it."""


class Demand:
    """What was asked since the step launched last; nothing at first."""

    def __init__(self) -> None:
        self._num_asked = 0
        self._num_continued = 0
        self._has_scored = False
        self._beams: NDArray[np.int32] | None = None

    def forget(self) -> None:
        """Begins with a step that is launched."""
        self._num_asked = self._num_continued = 0
        self._has_scored, self._beams = False, None

    def note(self, plan: DraftPlan, answers: Answers) -> None:
        """Takes a level that was answered."""
        if plan.level == 1:
            self._num_asked, self._num_continued = len(plan.row_token), 0
            self._has_scored, self._beams = len(plan.scored_token) > 0, answers.ids[:, :BEAMS]
            return
        beams, self._beams = self._beams, None
        if beams is None or plan.row_index != len(beams):
            return
        # One row of text's alone, and what is computed ahead is of no use.
        is_beam = (beams[plan.row_parent] == plan.row_token[:, None]).any(axis=1)
        self._num_continued = len(np.unique(plan.row_parent)) if is_beam.all() else 0

    @property
    def is_asleep(self) -> bool:
        """Whether no first level was asked."""
        return self._num_asked == 0

    def wants_roots(self, walks: int) -> bool:
        """Returns whether a first level is computed behind a step of so many walks."""
        return walks <= _LEAST_SHARE * self._num_asked

    def beams_at(self, walks: int) -> BeamsAt:
        """Returns when a second level is launched: never unless the one before was asked, of tokens alone that were
        beams."""
        if walks > _LEAST_SHARE * self._num_continued:
            return BeamsAt.NEVER
        return BeamsAt.ASKED if self._has_scored else BeamsAt.STEP
