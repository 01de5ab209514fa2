"""What `spectrie doctor` says of a drafter: whether it fits the model, and what it costs here."""

from __future__ import annotations

from importlib import util
from pathlib import Path

from spectrie.cli.doctor.check import Check

__all__ = ["check_drafter"]

_NAME = "drafter"


def check_drafter(drafter: str | None, model: Path | None) -> Check:
    """Loads a drafter beside its model, on the CPU, and measures it.

    Args:
        drafter: As `--drafter` of a server; None if nobody asked, which loads nothing.
        model: The model's folder; None if it is not stored.

    Raises:
        ModelError: The drafter was named and cannot be read, or does not fit the model.
    """
    can_run = util.find_spec("safetensors") is not None
    if drafter == "off" or (drafter is None and not (can_run and model)):
        return Check(_NAME, "ok", "none asked for: --drafter PATH checks one")
    if not can_run:
        return Check(_NAME, "note", f"{drafter} is checked where models run: spectrie[cpu]")
    if model is None:
        return Check(_NAME, "note", f"{drafter} is checked with a model that is stored")
    if drafter is None:
        return _found(model)
    from spectrie.engine.forecast import measure

    measured = measure(model, drafter)
    info, expected = measured.drafter, measured.expected
    if info is None:
        return Check(_NAME, "note", f"none: {measured.why_none}")
    if info.is_for_model is False:
        return Check(
            _NAME, "note", f"{info.line}; tokens stay right, but few drafts may be accepted"
        )
    return Check(_NAME, "ok", info.line if expected is None else f"{info.line}; {expected}")


def _found(model: Path) -> Check:
    """What `auto` would take, without loading it."""
    from spectrie.model.runner.drafter_loading import found_drafter

    choice = found_drafter(model)
    if choice.folder is None:
        return Check(_NAME, "ok", f"none: {choice.why_none}; --drafter PATH checks one")
    what = "the model's own layer" if choice.folder == model else choice.folder.name
    return Check(_NAME, "ok", f"{what}, by --drafter auto, which measures it here too")
