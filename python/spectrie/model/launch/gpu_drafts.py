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
    """The drafter beside the model of a launcher.

    Attributes:
        number: Its number among the model's drafters: a GPU runs one.
        seats: Running requests that there is room for.
        max_rows: Draft rows of a step, all levels together.
    """

    number = 0
    seats = SEATS

    def __init__(self, launcher: Launcher) -> None:
        """Takes a launcher with a drafter.

        Raises:
            ValueError: It has none.
        """
        if launcher.drafts is None:
            raise ValueError("this launcher has no drafter")
        self._launcher = launcher
        self._drafts = launcher.drafts
        self.max_rows = self._drafts.max_draft_rows

    @property
    def num_bytes(self) -> int:
        """Memory of its weights."""
        return self._drafts.num_bytes

    def draft(self, plan: DraftPlan) -> Answers:
        """Answers a level; see `Drafts.draft`.

        Raises:
            ValueError: The level contradicts itself; nothing was changed.
        """
        return self._drafts.draft(plan)

    def upkeep_ms(self, forward: Callable[[int], int], settle: Callable[[], object]) -> float:
        """Returns the milliseconds that entries add to a recorded step of one row, by the device's clock; no
        step need be computed for that, and no entries wait."""
        return self._drafts.upkeep_ms()

    def close(self) -> None:
        """Takes it away, and records the steps again without it."""
        self._launcher.set_drafter(None)
        del self._drafts
        try:
            self._launcher.record(lambda line: None)
        except RuntimeError:
            log.warning(
                "steps are recorded no more: kernels are launched one by one", exc_info=True
            )
