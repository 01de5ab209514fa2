"""Copies of keys, values and features that a level says, and what launches those that no recorded work does."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

import spectrie_kernels
from spectrie.model.drafters.plan import DraftPlan
from spectrie.model.launch.drafts.levels.checks import check_pairs
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.step.device import Device

__all__ = ["NO_MOVES", "Mover", "moved_features", "moved_slots"]

Int32 = NDArray[np.int32]

NO_MOVES: Int32 = np.zeros((0, 2), np.int32)


class Mover:
    """Moves slots of a drafter and rows of its features."""

    def __init__(
        self,
        operators: DraftOperators,
        target: GpuOperators,
        device: Device,
        features: torch.Tensor | None,
    ) -> None:
        """Launches nothing yet.

        Args:
            operators: The drafter's.
            target: The model's.
            device: Theirs.
            features: As the keeper has them; None where none are read.
        """
        self._operators, self._target = operators, target
        self._device, self._features = device, features

    def launch(self, slots: Int32, rows: Int32, *, with_model: bool = False) -> None:
        """Launches moves in order, source and destination of each.

        Args:
            slots: int32 [any, 2], slots of keys and values.
            rows: int32 [any, 2], rows of features.
            with_model: Whether slots of the model are moved too.
        """
        operators, target, features = self._operators, self._target, self._features
        of_slots, of_rows = self._there(slots), self._there(rows)

        @torch.inference_mode()
        def work() -> None:
            if with_model:
                target.move(*of_slots)
            operators.move(*of_slots)
            if features is not None:
                spectrie_kernels.move_rows(features, *of_rows)

        self._device.launch(work)

    def _there(self, moves: Int32) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies moves and their number to the device."""
        device = self._target.device
        count = torch.tensor([len(moves)], dtype=torch.int32).to(device)
        return torch.from_numpy(np.ascontiguousarray(moves)).to(device), count


def moved_slots(plan: DraftPlan) -> Int32:
    """Returns the slots that a level copies, source and destination: int32 [any, 2]."""
    return np.stack([plan.kv_move_src, plan.kv_move_dst], axis=1).astype(np.int32)


def moved_features(plan: DraftPlan, num_features: int, store_rows: int | None) -> Int32:
    """Returns the rows of features that a level copies, source and destination: int32 [any, 2], none where none are read.
    Those of the last forward stand behind the store.

    Args:
        plan: The level.
        num_features: Rows of the last forward whose features are there.
        store_rows: Rows of features that outlive a forward; None where none are read.

    Raises:
        ValueError: One is not below its limit.
    """
    if store_rows is None:
        return NO_MOVES
    moves = check_pairs("feature_moves", plan.feature_moves, num_features, store_rows)
    copies = check_pairs("feature_copies", plan.feature_copies, store_rows, store_rows)
    return np.concatenate([moves + np.array([store_rows, 0], np.int32), copies])
