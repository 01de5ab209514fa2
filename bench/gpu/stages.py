"""The stages of a visit, in the order of a first one. A stage is a list of checks; see `Check`."""

from __future__ import annotations

from dataclasses import dataclass

from bench.gpu.check import Check

__all__ = ["REQUIREMENTS", "STAGES", "Stage"]

REQUIREMENTS = (
    "google.protobuf",
    "google.rpc",
    "gguf",
    "grpc",
    "grpc_health",
    "numpy",
    "pytest",
    "safetensors",
    "spectrie._core",
    "tokenizers",
    "torch",
    "triton",
)
"""Modules that a machine may lack; each is looked for before anything imports it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a visit that fits one call.

    Attributes:
        about: What it finds out.
        limit_s: Seconds after which no further check begins.
        item_limit_s: Seconds that one item may take.
        checks: What it does, in this order.
    """

    about: str
    limit_s: float
    item_limit_s: float
    checks: tuple[Check, ...]


_KERNELS = ("torch", "triton", "numpy")

STAGES = {
    "smoke": Stage(
        "whether everything runs at all: lists all faults, measures little",
        limit_s=120.0,
        item_limit_s=60.0,
        checks=(
            Check("device", "bench.gpu.device:items", ("torch", "triton")),
            Check("forms", "bench.gpu.forms:items", _KERNELS, interpreted=False),
            Check("tests", "bench.gpu.device_tests:items", (*_KERNELS, "pytest")),
            Check(
                "answers",
                "bench.gpu.answers:items",
                (*_KERNELS, "spectrie._core", "safetensors", "tokenizers"),
            ),
        ),
    ),
}
"""By name. Later ones: `kernels`, `steps` and `end_to_end`, each with its checks here."""
