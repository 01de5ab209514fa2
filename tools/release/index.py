"""A folder of wheels from which pip installs `spectrie[cpu]` without a network."""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PYTHONS", "fetch_packages", "own_wheel"]

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python for which a release has wheels of all packages."""

_ROOT = Path(__file__).resolve().parents[2]
_FORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
"""Kinds of wheels that run where that of a release does."""


def own_wheel(folder: Path, machine: str) -> Path:
    """The binary wheel of a processor, by the name that Python has for it.

    Raises:
        LookupError: None was built.
    """
    found = next(folder.glob(f"spectrie-*-abi3-*_{machine}.whl"), None)
    if found is None:
        raise LookupError(f"no wheel in {folder} is for {machine}")
    return found


def fetch_packages(folder: Path, uv: str, wheel: Path, *, pythons: Sequence[str] = ()) -> None:
    """Fetches the wheels of all that spectrie[cpu] asks for, in the versions of requirements.lock.

    Args:
        folder: Gets them.
        uv: The uv that makes an environment with pip.
        wheel: Ours, whatever another index has under its name.
        pythons: Versions of Python that they are for, as in `3.11`; by default they are for this one, on this
            machine.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        make = [uv, "venv", "--quiet", "--seed", "--python", sys.executable, str(environment)]
        subprocess.run(make, cwd=_ROOT, check=True)
        fetch = [str(environment / "bin/python"), "-m", "pip", "download", "--quiet"]
        fetch += ["--only-binary", ":all:", "--find-links", str(folder)]
        fetch += ["--constraint", str(_constraints(Path(scratch))), "--dest", str(folder)]
        fetch += [f"spectrie[cpu] @ {wheel.as_uri()}"]
        forms = [f"--platform={form}_{platform.machine()}" for form in _FORMS]
        others = [["--python-version", one, "--implementation", "cp", *forms] for one in pythons]
        for words in others or [[]]:
            subprocess.run([*fetch, *words], cwd=_ROOT, check=True)


def _constraints(folder: Path) -> Path:
    """Writes the versions of the lock without their hashes, as our own wheel has none there."""
    lines = (_ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    kept = [line.rstrip(" \\") for line in lines if line and not line.startswith((" ", "#"))]
    path = folder / "constraints.txt"
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return path
