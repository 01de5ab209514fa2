"""The compiled core: engine, text, router and CPU operators. One section per room."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str

# CPU operators (crate spectrie-cpu). Tensors are passed as addresses; `spectrie.model.operators.cpu`
# checks their shapes.

CPU_PAGE_SIZE: int
"""Slots of a page in the CPU key-value cache."""

@final
class CpuBatch:
    """A checked plan; see `spectrie.model.plan.PlanArrays`.

    Raises:
        ValueError: The plan contradicts itself or leaves the cache.
    """

    def __new__(cls, plan: Any, num_pages: int, max_context: int) -> CpuBatch: ...
    @property
    def num_rows(self) -> int:
        """Rows of the plan."""

@final
class CpuAttention:
    """Attention of all layers, with the paged key-value cache it owns.

    Args:
        cosines: float32 [max_context, rotated / 2].
        sines: Likewise.
        layers: Per layer: rotate, window, query norm weights, key norm weights.
        bfloat16: Whether activations and cache are bfloat16, else float32.

    Raises:
        ValueError: Sizes that do not fit, or no memory for the cache.
    """

    def __new__(
        cls,
        *,
        heads: int,
        kv_heads: int,
        head_dim: int,
        num_pages: int,
        max_context: int,
        scale: float,
        norm_epsilon: float,
        cosines: NDArray[np.float32],
        sines: NDArray[np.float32],
        layers: list[tuple[bool, int | None, list[float] | None, list[float] | None]],
        bfloat16: bool,
    ) -> CpuAttention: ...
    def move_slots(self, batch: CpuBatch) -> None:
        """Does the plan's cache moves in every layer."""
    def attend(
        self,
        layer: int,
        batch: CpuBatch,
        first_row: int,
        num_rows: int,
        qkv: int,
        out: int,
        threads: int,
    ) -> None:
        """Writes keys and values, then attends, for some rows of the batch."""

def cpu_add_rms_norm(
    residual: int,
    delta: int,
    weight: int,
    out: int,
    rows: int,
    width: int,
    epsilon: float,
    bfloat16: bool,
    threads: int,
    /,
) -> None:
    """Adds delta (0 = none) to the float32 residual in place and writes the norm of the sum."""

def cpu_silu_mul(
    gate_up: int, out: int, rows: int, width: int, bfloat16: bool, threads: int, /
) -> None:
    """Writes silu(gate) * up of rows [gate | up]."""

def cpu_arithmetic() -> str:
    """Name of the operators' arithmetic: equal names give equal bits."""
