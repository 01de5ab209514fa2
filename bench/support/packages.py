"""Files of pinned PyPI packages: fetched once into the cache, checked against their hashes."""

from __future__ import annotations

import hashlib
import html
import os
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

__all__ = ["Package", "cache_folder", "fetch", "index_url", "listing", "members"]

_LINK = re.compile(r'<a href="([^"]+)"[^>]*>\s*([^<\s]+)\s*</a>')
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Package:
    """One file of one package, pinned.

    Attributes:
        name: The project, as the index knows it.
        file: Name of the wheel or sdist; it holds the version.
        sha256: Hash of that file, in hexadecimal.
    """

    name: str
    file: str
    sha256: str


def cache_folder() -> Path:
    """Where the bench keeps what it fetched and built: `$SPECTRIE_BENCH_CACHE`, else the cache."""
    named = os.environ.get("SPECTRIE_BENCH_CACHE")
    base = Path(named) if named else Path.home() / ".cache" / "spectrie" / "bench"
    base.mkdir(parents=True, exist_ok=True)
    return base


def index_url() -> str:
    """The package index that pip would use on this machine."""
    named = os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_DEFAULT_INDEX")
    if named:
        return named.rstrip("/") + "/"
    program = (
        "from pip._internal.configuration import Configuration as C\n"
        "from pip._internal.models.index import PyPI\n"
        "c = C(isolated=False); c.load()\n"
        "print(dict(c.items()).get('global.index-url') or PyPI.simple_url)"
    )
    # The virtual environment has no pip of its own; the interpreter it came from has.
    python = Path(sys.base_prefix) / "bin" / "python3"
    done = subprocess.run(
        [str(python), "-c", program], check=True, capture_output=True, text=True, cwd="/"
    )
    return done.stdout.strip().rstrip("/") + "/"


def listing(name: str) -> list[tuple[str, str]]:
    """Every file of a project: its name and its address with `#sha256=`."""
    url = f"{index_url()}{name}/"
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as reply:
        page = reply.read().decode()
    return [(label, urljoin(url, html.unescape(link))) for link, label in _LINK.findall(page)]


def fetch(package: Package, folder: Path | None = None) -> Path:
    """The pinned file, from the cache or the index.

    Raises:
        ValueError: The index lacks the file, or its bytes are not the pinned ones.
        OSError: The index cannot be reached.
    """
    folder = folder or cache_folder() / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / package.file
    if not path.exists():
        address = dict(listing(package.name)).get(package.file)
        if address is None:
            raise ValueError(f"the package index has no {package.file}; pin another version")
        with urllib.request.urlopen(address.partition("#")[0], timeout=_TIMEOUT_S) as reply:
            content = reply.read()
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(content)
        part.rename(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        path.unlink()
        raise ValueError(
            f"{package.file} has sha256 {found}, expected {package.sha256};"
            " it was removed from the cache, run again"
        )
    return path


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every plain file in a wheel or sdist, in the archive's order."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield entry.filename, archive.read(entry)
        return
    with tarfile.open(path) as archive:
        for info in archive:
            content = archive.extractfile(info) if info.isfile() else None
            if content is not None:
                yield info.name, content.read()
