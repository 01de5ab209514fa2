"""The operators between the torch decoder's matrix products.

`base` says what an operator set does; `gpu` calls the Triton kernels, `reference` is the same in plain
torch, for checking.
"""

from __future__ import annotations

from spectrie.model.operators.base import TOP_K, Operators, OperatorSettings

__all__ = ["TOP_K", "OperatorSettings", "Operators"]
