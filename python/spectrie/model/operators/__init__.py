"""The operators between a decoder's matrix products, and the one place that chooses them.

`base` says what an operator set does; `cpu` calls the compiled core, `gpu` the Triton kernels;
`reference` is the same in plain torch, for checking.
"""

from __future__ import annotations

from spectrie.model.operators.base import TOP_K, Operators, OperatorSettings
from spectrie.model.operators.dispatch import create_operators

__all__ = ["TOP_K", "OperatorSettings", "Operators", "create_operators"]
