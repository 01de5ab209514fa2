"""Rows of a first level that become blocks: all later levels are answered from the states that these leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrie.errors import ModelError
from spectrie.model.drafters.description import Drafter
from spectrie.model.drafters.dflash import DflashWeights
from spectrie.model.drafters.eagle3 import Eagle3Weights

__all__ = ["Block", "BlockRows", "block_of"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """What a row of a first level becomes.

    Attributes:
        rows: Rows that are computed of it, one position behind the other. Each sees those before it.
        states: States that they leave, those of the last rows: one a level.
        mask_token: Token of the rows behind the row's own.
        has_context: Whether a row without a token comes first, whose keys are products of the feature.
        looks_ahead: Whether rows see all rows of the block in some layers.
    """

    rows: int
    states: int
    mask_token: int
    has_context: bool
    looks_ahead: bool


def block_of(drafter: Drafter) -> Block | None:
    """Returns what rows of a drafter's first level become; None if they stay single rows.

    Raises:
        ModelError: Rows of a block look ahead in a window, which is not computed here.
    """
    weights = drafter.weights
    if isinstance(weights, Eagle3Weights) and weights.parallel is not None:
        parallel = weights.parallel
        return Block(
            rows=parallel.block,
            states=parallel.block,
            mask_token=parallel.mask_token,
            has_context=False,
            looks_ahead=False,
        )
    if not isinstance(weights, DflashWeights):
        return None
    ahead = [layer for layer in drafter.geometry.layers if layer.looks_ahead]
    if any(layer.window is not None for layer in ahead):
        raise ModelError("a sliding window in layers that look ahead runs on a CPU alone, so far")
    return Block(
        rows=weights.block + 1,
        states=weights.block - 1,
        mask_token=weights.mask_token,
        has_context=True,
        looks_ahead=bool(ahead),
    )


class BlockRows:
    """The rows of some blocks, block after block.

    Args:
        block: What each row becomes.
        tokens: int [blocks], the token of each.
        positions: int [blocks], position of each block's first row.
        first_slot: Slot of the first row.
    """

    def __init__(
        self, block: Block, tokens: NDArray[np.integer], positions: Int64, first_slot: int
    ) -> None:
        count = len(tokens)
        every = np.full((count, block.rows), block.mask_token, np.int64)
        own = int(block.has_context)
        every[:, :own] = -1
        every[:, own] = tokens
        self.tokens: Int64 = every.reshape(-1)
        """int64 [rows], -1 for none."""
        ahead = positions[:, None] + np.arange(block.rows)
        self.positions: Int64 = ahead.reshape(-1)
        """int64 [rows]."""
        self.slots: Int64 = first_slot + np.arange(count * block.rows)
        """int64 [rows], also the paths of all blocks: of each row of a block, the whole of it."""
        last = np.repeat(ahead[:, -1], block.rows).reshape(count, -1)
        # The context sees no block.
        last[:, :own] = ahead[:, :own]
        self.seen: Int64 = last.reshape(-1)
        """int64 [rows], the last position that each sees where it looks ahead."""
        self.path_begins: Int64 = np.repeat(np.arange(count) * block.rows, block.rows)
        """int64 [rows], where the path of each begins."""
