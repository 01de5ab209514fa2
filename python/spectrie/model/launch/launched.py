"""A step on its way through a GPU."""

from __future__ import annotations

import torch

from spectrie.model.launch.results import Sizes
from spectrie.model.launch.ring import Pinned
from spectrie.model.plan import StepResult
from spectrie.model.step.device import Span
from spectrie.model.step.packed import PackedStep
from spectrie.model.step.wanted import Wanted

__all__ = ["Launched"]


class Launched:
    """A step that the device computes."""

    def __init__(
        self,
        pinned: Pinned,
        packed: PackedStep,
        sizes: Sizes,
        logits: tuple[int, int],
        wanted: Wanted,
        results: torch.Tensor,
        followed: Span | None = None,
    ) -> None:
        self._followed = followed
        self._drawn = None if wanted is Wanted.LOGITS else results[: packed.samples]
        self._pinned = pinned
        self._packed = packed
        self._sizes = sizes
        self._logits = logits
        self._wanted = wanted

    @property
    def is_done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._pinned.done.is_reached

    @property
    def followed_ms(self) -> float:
        """Milliseconds by the device's clock from the step's end to that of the last level which a drafter computes
        ahead behind it, before which the next step cannot begin; 0 without one. Blocks until they are over; valid until
        the step after the next one is launched."""
        return 0.0 if self._followed is None else self._followed.milliseconds()

    @property
    def drawn(self) -> torch.Tensor | None:
        """The token of each sample row, on the device and for the step launched next alone: int32 [S]. None
        where logits were wanted."""
        return self._drawn

    def wait(self) -> StepResult:
        """Waits for the device, without the GIL; returns what was wanted, in memory of the host."""
        self._pinned.done.wait()
        samples, tops = self._packed.samples, self._packed.tops
        tokens, ids, probabilities = self._sizes.split(self._pinned.results)
        rows, vocabulary = self._logits
        logits = self._pinned.logits[: rows * vocabulary].view(torch.float32).view(rows, vocabulary)
        # Copies, as the second next step writes to the same memory.
        return StepResult(
            logits,
            ids.numpy()[:tops].copy(),
            probabilities.numpy()[:tops].copy(),
            None if self._wanted is Wanted.LOGITS else tokens.numpy()[:samples].copy(),
            compacted=self._wanted is not Wanted.LOGITS,
        )
