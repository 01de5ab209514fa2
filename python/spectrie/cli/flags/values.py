"""Kinds of option values: how each is read from text, and what its refusal says."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Kind", "address", "choice", "duration", "flag", "integer", "number", "size", "text"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value.

    Attributes:
        metavar: How help shows a value.
        parse: Gives the value of a text; raises ValueError, saying what is allowed.
        is_flag: Whether the option stands without a value on the command line.
        choices: The allowed texts, for a choice.
        allowed: The range and unit that help shows; empty where the metavar says enough.
    """

    metavar: str
    parse: Callable[[str], Any]
    is_flag: bool = False
    choices: tuple[str, ...] = ()
    allowed: str = ""


text = Kind("TEXT", str)
"""Any text."""


def named(metavar: str) -> Kind:
    """Any text, shown as `metavar`."""
    return Kind(metavar, str)


def choice(*choices: str) -> Kind:
    """One of the given words."""

    def parse(given: str) -> str:
        if given not in choices:
            raise ValueError(f"{given!r} is not one of {', '.join(choices)}")
        return given

    return Kind("|".join(choices), parse, choices=choices)


def integer(
    minimum: int = 0, maximum: int | None = None, *, unit: str = "", auto: bool = False
) -> Kind:
    """A whole number between two bounds, both included; `auto` reads as None where allowed."""
    allowed = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"

    def parse(given: str) -> int | None:
        if auto and given == "auto":
            return None
        try:
            value = int(given)
        except ValueError:
            also = " or auto" if auto else ""
            raise ValueError(f"{given!r} is not a whole number {allowed}{also}") from None
        if value < minimum or (maximum is not None and value > maximum):
            raise ValueError(f"{value} is out of range: {allowed}")
        return value

    shown = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
    return Kind("N", parse, allowed=f"{shown} {unit}".rstrip())


def number(
    minimum: float | None, maximum: float | None, *, unit: str = "", is_open: bool = False
) -> Kind:
    """A finite number between two bounds, both included unless `is_open`, which bars `minimum`."""
    low = -math.inf if minimum is None else minimum
    high = math.inf if maximum is None else maximum
    if is_open:
        allowed = f"above {low:g}" + (f", up to {high:g}" if maximum is not None else "")
    else:
        allowed = f"from {low:g} to {high:g}"

    def parse(given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            raise ValueError(f"{given!r} is not a number") from None
        if not low <= value <= high or (is_open and value == low) or math.isinf(value):
            raise ValueError(f"{given} is out of range: {allowed}")
        return value

    return Kind("X", parse, allowed=f"{allowed.removeprefix('from ')} {unit}".rstrip())


_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _parse_flag(given: str) -> bool:
    word = given.lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError(f"{given!r} is not one of true, false")


flag = Kind("", _parse_flag, is_flag=True)
"""True or false; the flag alone means true."""

_SIZE_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _SIZE_UNITS[_letter] = _SIZE_UNITS[f"{_letter}ib"] = 1024**_power
    _SIZE_UNITS[f"{_letter}b"] = 1000**_power
_DURATION_UNITS = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "min": 60.0, "h": 3600.0}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def _parse_size(given: str) -> int | None:
    if given == "auto":
        return None
    match = _AMOUNT.fullmatch(given)
    unit = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(
            f"{given!r} is not a size: give auto, bytes, or a number with KiB, MiB or GiB"
        )
    return int(float(match[1]) * unit)


size = Kind("SIZE", _parse_size)
"""Bytes: `512MiB`, `4G` (= GiB), `1GB` (10^9), plain bytes; `auto` reads as None."""


def _parse_duration(given: str) -> float:
    match = _AMOUNT.fullmatch(given)
    unit = _DURATION_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{given!r} is not a duration: give a number with ms, s, m or h")
    seconds = float(match[1]) * unit
    if not math.isfinite(seconds):
        raise ValueError(f"{given!r} is too long")
    return seconds


duration = Kind("TIME", _parse_duration)
"""Seconds: `10s`, `500ms`, `2m`, or a plain number of seconds."""


def address(*, unix: bool = True, off: bool = False) -> Kind:
    """`HOST:PORT` (port 0 picks a free one), `unix:PATH`, or `off`, the last two where allowed."""
    forms = ["HOST:PORT", *(["unix:PATH"] if unix else []), *(["off"] if off else [])]

    def parse(given: str) -> str:
        if (off and given == "off") or (unix and given.startswith("unix:") and len(given) > 5):
            return given
        host, colon, port = given.rpartition(":")
        bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
        if not colon or not host or not port.isdecimal() or int(port) > 65535 or bare_ipv6:
            raise ValueError(f"{given!r} is not an address: give {' or '.join(forms)}")
        return given

    return Kind("ADDR", parse)
