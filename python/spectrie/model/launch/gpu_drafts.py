"""A launcher's drafter, as a runner takes it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from spectrie.model.drafters.plan import Answers, DraftPlan
from spectrie.model.launch.drafts.memory import SEATS
from spectrie.model.launch.launcher import Launcher

__all__ = ["GpuDrafts"]

log = logging.getLogger("spectrie.model")


class GpuDrafts:
    """A drafter beside the model of a launcher.

    Attributes:
        number: Its number among the model's drafters.
        seats: Running requests that there is room for.
        max_rows: Draft rows of a step, all levels together.
    """

    seats = SEATS

    def __init__(self, launcher: Launcher, number: int) -> None:
        """Takes a launcher, and the number of one of its drafters.

        Raises:
            KeyError: It has none of that number.
        """
        self.number = number
        self._launcher = launcher
        self._drafts = launcher.drafts[number]
        self.max_rows = self._drafts.max_draft_rows

    @property
    def num_bytes(self) -> int:
        """Memory of its weights."""
        return self._drafts.num_bytes

    def draft(self, plan: DraftPlan) -> Answers:
        """Answers a level; see `DraftSet.draft`.

        Raises:
            ValueError: The level contradicts itself; nothing was changed.
        """
        return self._launcher.drafts.draft(plan)

    def upkeep_ms(self, forward: Callable[[int], int], settle: Callable[[], object]) -> float:
        """Returns the milliseconds that entries add to a recorded step of one row, by the device's clock; no
        step need be computed for that, and no entries wait."""
        return self._drafts.upkeep_ms()

    def close(self) -> None:
        """Takes it away, and records the steps again without it."""
        self._launcher.remove_drafter(self.number)
        del self._drafts
        try:
            self._launcher.record(lambda line: None)
        except RuntimeError:
            log.warning(
                "steps are recorded no more: kernels are launched one by one", exc_info=True
            )
