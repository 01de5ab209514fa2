"""The uv that `make` uses, also where pytest is started by hand."""

from __future__ import annotations

import os
import shutil

from tests.docs.markdown import ROOT

__all__ = ["uv"]


def uv() -> str:
    """What `UV` names, else the one of this machine, else that of the checkout."""
    own = ROOT / ".tools" / "uv" / "bin" / "uv"
    return os.environ.get("UV") or shutil.which("uv") or str(own)
