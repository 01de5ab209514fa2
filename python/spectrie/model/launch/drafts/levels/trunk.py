"""What all levels compute: states of rows that continue features, or states of rows before them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import spectrie_kernels
from spectrie.model.launch.drafts.kinds.kind import Kind
from spectrie.model.launch.drafts.naming.naming import Naming
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.step.input import StepInput
from spectrie.model.step.scratch import Scratch

__all__ = ["Trunk"]


@dataclass(frozen=True, slots=True)
class Trunk:
    """A drafter on a device.

    Attributes:
        kind: How it computes.
        naming: Its head.
        operators: Of its layers.
        features: As the keeper has them; None where none are read.
        states: [any, hidden], what later levels continue: of the step's draft rows.
    """

    kind: Kind
    naming: Naming
    operators: DraftOperators
    features: torch.Tensor | None
    states: torch.Tensor

    def compute(
        self,
        step: StepInput,
        origins: torch.Tensor,
        places: torch.Tensor,
        scratch: Scratch,
        *,
        is_first: bool,
    ) -> torch.Tensor:
        """Launches all layers; returns what the head takes, [states, hidden].

        Args:
            step: As the operators have begun with it.
            origins: int32 [rows], what each row continues.
            places: int32 [states], where each state goes.
            scratch: Where results go.
            is_first: Whether rows continue features.
        """
        features = self.features
        source = features if features is None or is_first else self.states
        before = None if source is None else self.gathered(source, origins, scratch)
        head_input, left = self.kind.states(
            step.tokens, before, self.operators, is_state=not is_first
        )
        if features is not None:
            wide = scratch.empty("places", places.shape, torch.int64)
            self.states.index_copy_(0, wide.copy_(places), left)
        return head_input

    def gathered(
        self, source: torch.Tensor, origins: torch.Tensor, scratch: Scratch
    ) -> torch.Tensor:
        """Launches the copy of what rows continue; returns it, [rows, width]."""
        shape = (origins.shape[0], source.shape[1])
        before = scratch.empty("before", shape, source.dtype)
        return spectrie_kernels.gather_rows(source, origins, before)
