"""What `torch_free.py` computes in a root, and what this checkout does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.docs.markdown import ROOT
from tests.model.cases import write_cases
from tests.model.torch_free import MISSING, answers
from tests.packaging.root.entered import PREFIX, enter

__all__ = ["PYTHON", "computed", "expected", "save_cases"]

PYTHON = f"{PREFIX}/bin/python"
_CHECKS = ("tests/model/torch_free.py", "tests/model/drafters/session.py")
_PATIENCE_S = 240


def save_cases(folder: Path) -> None:
    """Writes the models, and their paths as they are here and as they are in the root."""
    text = json.dumps(write_cases(folder))
    (folder / "here.json").write_text(text)
    (folder / "cases.json").write_text(text.replace(str(folder), "/cases"))


def expected(cases: Path) -> dict[str, Any]:
    """What this checkout computes; `SPECTRIE_CACHE` is where it writes."""
    return answers(json.loads((cases / "here.json").read_text()), "cpu")


def computed(
    root: Path, cases: Path, folder: Path, *, is_contained: bool, **other: Any
) -> dict[str, Any]:
    """What torch_free.py computes in a root.

    Args:
        root: The root.
        cases: Of `save_cases`.
        folder: For what it writes.
        is_contained: See `enter`.
        other: Other cases instead of these.
    """
    checks, cache = folder / "checks", folder / "cache"
    cache.mkdir()
    for name in _CHECKS:
        (checks / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checks / name)
    given = json.loads((cases / "cases.json").read_text()) | other
    words = [PYTHON, "-m", "tests.model.torch_free", json.dumps({"cases": given, "device": "auto"})]
    volumes = {"/checks": checks, "/cache": cache, "/cases": cases}
    with enter(
        root, folder / "computing", words, volumes=volumes, is_contained=is_contained
    ) as inside:
        assert inside.wait(_PATIENCE_S) == 0, inside.log
        found: dict[str, Any] = json.loads(inside.log.splitlines()[-1])
    loaded = sorted(set(MISSING) & set(found["loaded"]))
    assert not loaded, f"loaded: {loaded}"
    return found["answers"]  # type: ignore[no-any-return]
