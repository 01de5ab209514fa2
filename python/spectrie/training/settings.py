"""How a head is trained."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TrainSettings"]


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Settings of one training.

    Attributes:
        levels: Levels of a draft that are trained, each on the guesses of the one before.
        level_weight: Weight of a level's loss, relative to the level before.
        epochs: Passes over the samples.
        batch_tokens: Tokens of a batch, with padding.
        learning_rate: Highest rate.
        warm_up: Share of the steps in which the rate rises.
        copied_warm_up: Share of the steps in which the rate of what was copied from the target rises from
            a tenth to all of the others'. The new parts find their place first.
        weight_decay: Of AdamW, for matrices.
        gradient_norm: Longest gradient of a step.
        evaluations: Looks at the held-out samples per epoch.
        patience: Looks without a better loss before training ends early.
        seed: Orders the batches.
        bfloat16: Whether products are computed in bfloat16; weights, norms and sums stay float32.
    """

    levels: int = 3
    level_weight: float = 0.8
    epochs: int = 4
    batch_tokens: int = 512
    learning_rate: float = 1e-3
    warm_up: float = 0.04
    copied_warm_up: float = 0.25
    weight_decay: float = 0.01
    gradient_norm: float = 1.0
    evaluations: int = 2
    patience: int = 4
    seed: int = 0
    bfloat16: bool = False
