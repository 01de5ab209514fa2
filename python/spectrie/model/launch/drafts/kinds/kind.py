"""What all kinds of drafters are on a device, and what most of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import torch

import spectrie_kernels
from spectrie.model.decoder.packing import Layer, Tensor, Vector
from spectrie.model.launch.drafts.layers import DraftLayers
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.launch.drafts.tensors import DraftTensors

__all__ = ["BaseKind", "Entered", "Kind", "joined", "vectors_of"]

Entered = tuple[torch.Tensor | None, torch.Tensor]
"""What the first layer's products take, None for the stream; and the residual stream, float32."""


class Kind(Protocol):
    """A kind of drafter.

    Attributes:
        taps: Layers of the model whose outputs, side by side, make a feature; None for its last norm's.
        layers: Its layers.
        table: Token vectors.
        entries_attend: Whether entries need attention in the step that writes them.
    """

    taps: tuple[int | None, ...]
    layers: DraftLayers
    table: torch.Tensor
    entries_attend: bool

    def entries(
        self, tokens: torch.Tensor, before: torch.Tensor | None, operators: DraftOperators
    ) -> None:
        """Launches what writes keys and values of all layers.

        Args:
            tokens: int32 [rows], negative for none.
            before: [rows, any], features of the tokens before, in the format of products; None for a drafter
                that reads none.
            operators: Of the layers; have begun with the rows.
        """

    def states(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Launches all layers.

        Args:
            tokens: int32 [rows], negative for none.
            before: As for `entries`; or states that an earlier level left, float32.
            operators: Of the layers; have begun with the rows.
            is_state: Which of both.

        Returns:
            What the head takes, [states, hidden] in the format of products, and what later levels continue: of
            a block the same, else float32.
        """


class BaseKind(ABC):
    """A drafter whose rows are one step each."""

    carries_normed = False
    """Whether the next level continues from what the head takes."""
    taps: tuple[int | None, ...]

    def __init__(
        self,
        layers: list[Layer],
        output_norm: Vector | None,
        embedding: Tensor | None,
        tensors: DraftTensors,
        table: torch.Tensor,
    ) -> None:
        """Copies its layers.

        Args:
            layers: As they were read.
            output_norm: Norm before the head; None for none.
            embedding: Token vectors of its own.
            tensors: Copies.
            table: Token vectors where it has none.
        """
        self.layers = DraftLayers(layers, output_norm, tensors)
        self.entries_attend = self.layers.count > 1
        self.table = (
            table if embedding is None else tensors.numbers(embedding).view(-1, self.hidden)
        )

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.layers.hidden

    @abstractmethod
    def enter(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> Entered:
        """Launches what leads to the first layer; arguments as for `Kind.states`."""

    def entries(
        self, tokens: torch.Tensor, before: torch.Tensor | None, operators: DraftOperators
    ) -> None:
        """See `Kind`."""
        x, stream = self.enter(tokens, before, operators, is_state=False)
        self.layers.entries(x, stream, operators)

    def states(
        self,
        tokens: torch.Tensor,
        before: torch.Tensor | None,
        operators: DraftOperators,
        *,
        is_state: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Kind`."""
        x, stream = self.enter(tokens, before, operators, is_state=is_state)
        head_input = self.layers.states(x, stream, operators)
        if self.carries_normed:
            stream.copy_(head_input)
        return head_input, stream


def vectors_of(
    table: torch.Tensor, tokens: torch.Tensor, name: str, operators: DraftOperators
) -> torch.Tensor:
    """Returns token vectors, float32 [rows, hidden], zeros for negative tokens; called `name` in the scratch."""
    shape = (tokens.shape[0], table.shape[1])
    out = operators.scratch.empty(name, shape, torch.float32)
    return spectrie_kernels.embed(tokens, table, out)


def joined(left: torch.Tensor, right: torch.Tensor, operators: DraftOperators) -> torch.Tensor:
    """Returns both, [rows, hidden], side by side in the format of products."""
    rows, hidden = left.shape
    x = operators.scratch.empty("inputs", (rows, 2 * hidden), operators.dtype)
    x[:, :hidden].copy_(left)
    x[:, hidden:].copy_(right)
    return x
