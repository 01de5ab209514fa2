"""Programs of another processor: Debian's Python for it, unpacked into a folder, and qemu that runs it.

Nothing is installed, and no kernel has to know foreign programs (binfmt): apt fetches with a state of its own, and
qemu is called by name.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.packaging.uv import uv

__all__ = ["install", "missing", "unpack"]

_PROGRAMS = {"apt-get": "apt", "dpkg-deb": "dpkg", "qemu-aarch64": "qemu-user"}
_PATIENCE_S = 600
# What the wheels take from the system beside Python.
_CONTENT = ("python3", "libstdc++6")


def missing() -> str | None:
    """What this machine lacks to run programs of aarch64; None where it lacks nothing."""
    lacks = [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    return f"it needs Debian packages {', '.join(lacks)}" if lacks else None


def unpack(folder: Path, architecture: str) -> str | None:
    """Unpacks Debian's Python for an architecture.

    Args:
        folder: Becomes the root.
        architecture: As Debian names it.

    Returns:
        Why it cannot be had here; None where it was.
    """
    state = folder / "apt"
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    settings = (
        f"APT::Architecture={architecture}",
        f"APT::Architectures::={architecture}",
        # The user that apt becomes to fetch cannot write here.
        "APT::Sandbox::User=root",
        f"Dir::State::Lists={state / 'lists'}",
        f"Dir::State::status={state / 'status'}",
        f"Dir::Cache={state}",
    )
    apt = ["apt-get", "-qq", *(f"-o{one}" for one in settings)]
    fetch = ["install", "--yes", "--download-only", "--no-install-recommends", *_CONTENT]
    for words in (["update"], fetch):
        done = subprocess.run([*apt, *words], capture_output=True, text=True, timeout=_PATIENCE_S)
        if done.returncode != 0:
            return f"apt-get {words[0]} for {architecture} failed: {done.stderr.strip()[-300:]}"
    for package in sorted((state / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    shutil.rmtree(state)
    return None


def install(wheel: Path, place: Path, *, machine: str, python: str, lock: Path) -> None:
    """Puts a wheel, and what a worker on a CPU needs beside it, into a folder, for any processor.

    Args:
        wheel: Ours.
        place: The folder.
        machine: As Python names the processor.
        python: Its Python's version, as in `3.11`.
        lock: The versions.
    """
    words = [
        uv(),
        "pip",
        "install",
        "--quiet",
        "--only-binary=:all:",
        f"--python-platform={machine}-manylinux_2_28",
        f"--python-version={python}",
        f"--constraint={lock}",
        f"--target={place}",
        f"spectrie[cpu] @ {wheel.as_uri()}",
    ]
    subprocess.run(words, check=True, timeout=_PATIENCE_S)
