"""What `spectrie doctor` says of a drafter: whether it fits the model, and what it costs here."""

from __future__ import annotations

from importlib import util
from pathlib import Path

from spectrie.cli.doctor.check import Check

__all__ = ["check_drafter"]

_NAME = "drafter"
_PAGES = 64


def check_drafter(drafter: Path | None, model: Path | None) -> Check:
    """Loads a drafter beside its model, on the CPU, and measures it.

    Args:
        drafter: Its folder; None if nobody asked.
        model: The model's folder; None if it is not stored.

    Raises:
        ModelError: The drafter cannot be read, or does not fit the model.
    """
    if drafter is None:
        return Check(_NAME, "ok", "none asked for: --drafter PATH checks one")
    if util.find_spec("torch") is None:
        return Check(_NAME, "note", f"{drafter} is not checked without torch")
    if model is None:
        return Check(_NAME, "note", f"{drafter} is checked with a model that is stored")
    from spectrie.model import load_runner

    runner = load_runner(model, device="cpu", num_pages=_PAGES, drafter=drafter)
    try:
        info = runner.drafter
    finally:
        runner.close()
    if info is None:
        return Check(_NAME, "fail", f"{drafter} was not loaded")
    if info.is_for_model is False:
        return Check(
            _NAME, "note", f"{info.line}; tokens stay right, but few drafts may be accepted"
        )
    return Check(_NAME, "ok", info.line)
