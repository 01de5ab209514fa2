"""The operators between the torch decoder's matrix products.

`base` defines a set of operators; `gpu` calls the Triton kernels, `exact` those of them whose rows do
not depend on one another, `reference` computes the same in plain torch, for checks.
"""

from __future__ import annotations

from spectrie.model.operators.base import TOP_K, Operators, OperatorSettings, Result

__all__ = ["TOP_K", "OperatorSettings", "Operators", "Result"]
