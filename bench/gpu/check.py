"""What a stage is made of: checks, and the items that a check runs one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Check", "Item", "NeedsDevice", "Settings", "Wrong"]


class NeedsDevice(Exception):
    """What an item measures cannot be shown here, for want of a device or something else: it is skipped."""


class Wrong(Exception):
    """What was measured contradicts a claim: a fault, whose values are kept.

    Attributes:
        values: JSON values, as of an item that is right.
    """

    def __init__(self, message: str, values: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.values = values


@dataclass(frozen=True, slots=True)
class Check:
    """A part of a stage, run in a process of its own.

    Attributes:
        name: What the result file calls it.
        items: Module and function that yields its items, as `bench.gpu.smoke.forms:items`.
        needs: Modules without which it is skipped.
        interpreted: Whether kernels run in Triton's interpreter where there is no device.
    """

    name: str
    items: str
    needs: tuple[str, ...] = ("torch",)
    interpreted: bool = True


@dataclass(frozen=True, slots=True)
class Item:
    """One result of a check.

    Attributes:
        name: Its name in the check.
        run: Measures it; returns JSON values. Whatever it raises is a fault, but `NeedsDevice`.
    """

    name: str
    run: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a stage is run.

    Attributes:
        dry: Whether there is no device: tiny shapes, an interpreter, a clock that counts its readings.
        scratch: A folder that is removed after the visit.
        model: Folder or file of the real model; None if it is not at hand.
        tests: Files and folders whose tests marked `gpu` are run.
        results: Folder of the result file, for tables that the product reads.
        device: What the `device` check found on this device so far, by name.
    """

    dry: bool
    scratch: str
    model: str | None
    tests: tuple[str, ...]
    results: str = ""
    device: Mapping[str, Any] = field(default_factory=dict)
