"""Pinned memory through which steps and their results travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from spectrie.model.step.device import Device, Event

__all__ = ["Pinned", "Ring"]

_PIECES = 2
_MUCH_WORDS = 1 << 22


@dataclass(slots=True)
class Pinned:
    """The pinned memory of one step.

    Attributes:
        words: int32, the packed step.
        results: int32, tokens and likeliest tokens.
        logits: int32, the bits of logits.
        beside: int32, what each drafter reads of the step.
        done: Comes when the device has read and written all of it.
    """

    words: torch.Tensor
    results: torch.Tensor
    logits: torch.Tensor
    beside: list[torch.Tensor]
    done: Event = field(repr=False)


class Ring:
    """Pieces of memory in turn: while the device works on one step, the host writes the next."""

    def __init__(self, device: Device, words: int) -> None:
        """Allocates pieces for packed steps of `words` words, and of a few results."""
        self._device = device
        self._pieces = [
            Pinned(
                words=device.pinned(words),
                results=device.pinned(0),
                logits=device.pinned(0),
                beside=[],
                done=device.event(),
            )
            for _ in range(_PIECES)
        ]
        self._next = 0

    def take(self) -> Pinned:
        """Returns the piece that was taken longest ago; waits for the device to be done with it."""
        pinned = self._pieces[self._next]
        self._next = (self._next + 1) % len(self._pieces)
        pinned.done.wait()
        return pinned

    def reserve(self, words: int, results: int, beside: Sequence[int] = ()) -> None:
        """Makes room for packed steps, results, and what each drafter reads, of so many words; no step may be in
        flight."""
        for pinned in self._pieces:
            if pinned.words.numel() < words:
                pinned.words = self._device.pinned(words)
            if pinned.results.numel() < results:
                pinned.results = self._device.pinned(results)
            pinned.beside = [self._device.pinned(words) for words in beside]

    def grown(self, memory: torch.Tensor, words: int) -> torch.Tensor:
        """Returns `memory` of a piece that is not in use if it has `words` words, else new memory: of twice as
        many, unless that is much."""
        if memory.numel() >= words:
            return memory
        return self._device.pinned(max(words, min(2 * words, _MUCH_WORDS)))

    def beside(self, pinned: Pinned, index: int, words: int) -> torch.Tensor:
        """Returns so many words or more of a piece that is not in use, for what the drafter at `index` reads."""
        while len(pinned.beside) <= index:
            pinned.beside.append(self._device.pinned(0))
        pinned.beside[index] = self.grown(pinned.beside[index], words)
        return pinned.beside[index]
