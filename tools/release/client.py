"""What is made of a binary wheel: a wheel for every platform, without the core, and its bill of materials."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path

__all__ = ["bill_of", "make_client_wheel"]

TAG = "py3-none-any"
# The core, libraries it would bring, and the heads that it computes.
_DROPPED = ("spectrie/_core.abi3.", "spectrie.libs/", "spectrie/model/sources/heads/")
# A fixed date, so that equal files give an equal wheel.
_DATE = (2020, 1, 1, 0, 0, 0)


def make_client_wheel(binary: Path, folder: Path) -> Path:
    """Writes the wheel into `folder` and returns its path.

    Name and version are those of the binary wheel, which pip prefers wherever it fits.
    """
    name, version = binary.name.split("-")[:2]
    target = folder / f"{name}-{version}-{TAG}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(binary) as source:
        files = {
            one: source.read(one)
            for one in source.namelist()
            # The list of the crates in the core is not this wheel's.
            if not one.endswith("/") and not one.startswith((*_DROPPED, f"{info}/sboms/"))
        }
    files[f"{info}/WHEEL"] = _pure(files[f"{info}/WHEEL"].decode()).encode()
    del files[f"{info}/RECORD"]
    lines = [f"{one},sha256={_digest(data)},{len(data)}" for one, data in sorted(files.items())]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for one, data in files.items():
            entry = zipfile.ZipInfo(one, _DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return target


def bill_of(binary: Path) -> bytes:
    """Returns the bill of materials (CycloneDX) that maturin puts into a wheel: the crates of the core."""
    with zipfile.ZipFile(binary) as source:
        names = [one for one in source.namelist() if one.endswith(".cyclonedx.json")]
        if len(names) != 1:
            raise LookupError(f"{binary} has {len(names)} bills of materials, expected one")
        return source.read(names[0])


def _pure(text: str) -> str:
    text = re.sub(
        r"(?m)^Tag: .*\n", "", text.replace("Root-Is-Purelib: false", "Root-Is-Purelib: true")
    )
    return f"{text.rstrip()}\nTag: {TAG}\n"


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
