"""Chooses the operators of a device."""

from __future__ import annotations

from spectrie.model.operators.base import Operators, OperatorSettings

__all__ = ["create_operators"]


def create_operators(settings: OperatorSettings) -> Operators:
    """The operators of the settings' device."""
    if settings.device.type == "cpu":
        from spectrie.model.operators.cpu import CpuOperators

        return CpuOperators(settings)
    from spectrie.model.operators.gpu import GpuOperators

    return GpuOperators(settings)
