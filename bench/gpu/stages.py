"""The stages of a visit, in the order of a first one. A stage is a list of checks; see `Check`."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    "transformers",
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
_FORMS = (*_KERNELS, "spectrie._core")

_DEVICE = Check("device", "bench.gpu.device:items", ("torch", "triton"), interpreted=False)
# In the process of the checks behind it, which has torch then.
_DEVICE_INTERPRETED = replace(_DEVICE, interpreted=True)
_MODELS = (*_KERNELS, "spectrie._core", "safetensors", "tokenizers")

STAGES = {
    "smoke": Stage(
        "whether everything runs at all: lists all faults, measures little",
        limit_s=120.0,
        item_limit_s=60.0,
        checks=(
            _DEVICE,
            Check("forms", "bench.gpu.smoke.forms:items", _FORMS, interpreted=False),
            Check("tests", "bench.gpu.smoke.device_tests:items", (*_KERNELS, "pytest")),
            Check("answers", "bench.gpu.smoke.answers:items", _MODELS),
        ),
    ),
    "kernels": Stage(
        "bytes and times of every kernel beside its rivals, and the fastest tiles",
        limit_s=360.0,
        item_limit_s=120.0,
        checks=(
            _DEVICE_INTERPRETED,
            Check("product bytes", "bench.gpu.kernels.product_bytes:items", _KERNELS),
            Check("attention", "bench.gpu.kernels.attention_speed:items", _KERNELS),
            Check("products", "bench.gpu.kernels.product_speed:items", _KERNELS),
            Check("cublaslt", "bench.gpu.kernels.product_race:items", _KERNELS),
            Check("prompts", "bench.gpu.kernels.attention_speed:prompt_items", _KERNELS),
            Check("draws", "bench.gpu.kernels.draw_speed:items", _KERNELS),
            Check("sanitizer", "bench.gpu.kernels.sanitized:items", _FORMS),
            Check("tuning", "bench.gpu.kernels.tuning:items", _KERNELS),
            Check("tests", "bench.gpu.smoke.device_tests:all_items", (*_KERNELS, "pytest")),
        ),
    ),
    "steps": Stage(
        "what a step of 0.5 to 8 billion weights takes, exact and fast, by rows and by kernel",
        limit_s=360.0,
        item_limit_s=120.0,
        checks=(
            _DEVICE,
            Check("steps", "bench.gpu.steps.step_speed:items", _MODELS, interpreted=False),
            Check("drafts", "bench.gpu.steps.draft_speed:items", _MODELS, interpreted=False),
            Check("host gap", "bench.gpu.steps.host_gap:items", _MODELS, interpreted=False),
            Check("blocks", "bench.gpu.steps.draft_speed:block_items", _MODELS, interpreted=False),
        ),
    ),
    "end_to_end": Stage(
        "answers: the same in every way, and their speed with speculation off and on",
        limit_s=360.0,
        item_limit_s=150.0,
        checks=(
            _DEVICE,
            Check("answers", "bench.gpu.end_to_end.exactness:items", _MODELS, interpreted=False),
            Check("played", "bench.gpu.end_to_end.played:items", _MODELS, interpreted=False),
            Check(
                "transformers",
                "bench.gpu.end_to_end.peer:items",
                (*_MODELS, "transformers"),
                interpreted=False,
            ),
            Check(
                "answers beside drafters",
                "bench.gpu.end_to_end.exactness:drafter_items",
                _MODELS,
                interpreted=False,
            ),
        ),
    ),
}
"""By name, each with its dearest facts first."""
