"""What `spectrie doctor` says of drafters: whether they fit the model, and what they cost here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import util
from pathlib import Path

from spectrie.cli.doctor.check import Check

__all__ = ["check_drafters"]

_NAME = "drafter"


def check_drafters(drafters: Sequence[str] | None, model: Path | None) -> Check:
    """Loads drafters beside their model, where a server would run them, and measures them.

    Args:
        drafters: As `--drafter` of a server; None if nobody asked, which loads nothing.
        model: The model's folder; None if it is not stored.

    Raises:
        ConfigError: They cannot be loaded together.
        ModelError: A drafter was named and cannot be read, or does not fit the model.
    """
    can_run = util.find_spec("safetensors") is not None
    is_off = drafters is not None and set(drafters) == {"off"}
    if is_off or (drafters is None and not (can_run and model)):
        return Check(_NAME, "ok", "none asked for: --drafter PATH checks one")
    if not can_run:
        named = ", ".join(drafters or [])
        return Check(_NAME, "note", f"{named} is checked where models run: spectrie[cpu]")
    if model is None:
        named = ", ".join(drafters or [])
        return Check(_NAME, "note", f"{named} is checked with a model that is stored")
    if drafters is None:
        return _found(model)
    from spectrie.engine.forecast import measure

    measured = measure(model, drafters, device="auto")
    if not measured.drafters:
        return Check(_NAME, "note", f"none: {measured.why_none}")
    lines = []
    for info, expected in measured.drafters:
        if info.is_for_model is False:
            lines.append(f"{info.line}; tokens stay right, but few drafts may be accepted")
        else:
            lines.append(info.line if expected is None else f"{info.line}; {expected}")
    is_other = any(info.is_for_model is False for info, _ in measured.drafters)
    return Check(_NAME, "note" if is_other else "ok", " | ".join(lines))


def _found(model: Path) -> Check:
    """What `auto` would take, without loading it."""
    from spectrie.model.runner.drafter_loading import found_drafter

    choice = found_drafter(model)
    if choice.folder is None:
        return Check(_NAME, "ok", f"none: {choice.why_none}; --drafter PATH checks one")
    what = "the model's own layer" if choice.folder == model else choice.folder.name
    return Check(_NAME, "ok", f"{what}, by --drafter auto, which measures it here too")
