"""Packs what a GPU machine lacks into folders that each fit one call, and puts it together there.

`python bench/gpu/carry.py pack FOLDER [--model FILE]` writes FOLDER/1, FOLDER/2 and so on, one a stage: each
with the compiled core, the packages and one part of the model's file, so that any of them makes a bare
machine ready, and all of them bring the model. `unpack CARRIED KEPT` is run on that machine; it prints
lines for a shell to evaluate. Needs Python alone. Equal files give equal bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import os
import shlex
import sys
import tarfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["CarryError", "main", "pack", "unpack"]

ROOT = Path(__file__).resolve().parents[2]
CORE = Path("python") / "spectrie" / "_core.abi3.so"
PACKAGES = ("gguf", "googleapis-common-protos", "grpcio-health-checking")
"""Distributions in pure Python that the machine lacks."""
MOST_BYTES = 64 << 20
"""Of one call."""
PARTS = 4
"""As many as a visit has stages."""

_CORE, _PACKAGES, _PART, _MANIFEST = "core.xz", "packages.tar.xz", "model.part", "manifest.json"


class CarryError(Exception):
    """Something is too large, missing or damaged."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Packs or unpacks; returns 1 if that was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="write one folder a call")
    packing.add_argument("folder", type=Path, metavar="FOLDER")
    packing.add_argument("--model", type=Path, metavar="FILE", help="a GGUF file")
    unpacking = commands.add_parser("unpack", help="on the GPU machine")
    unpacking.add_argument("carried", type=Path, metavar="CARRIED", help="one of those folders")
    unpacking.add_argument("kept", type=Path, metavar="KEPT", help="a folder kept between calls")
    args = parser.parse_args(arguments)
    try:
        if args.command == "pack":
            found = _installed(PACKAGES)
            for folder in pack(args.folder, ROOT / CORE, found, args.model):
                print(f"{_size(folder) / 2**20:.1f} MiB in {folder}")
        else:
            for name, value in unpack(args.carried, args.kept, ROOT / CORE).items():
                print(f"export {name}={shlex.quote(value)}")
    except (CarryError, OSError, metadata.PackageNotFoundError) as error:
        print(f"carry: {error}", file=sys.stderr)
        return 1
    return 0


def pack(
    folder: Path,
    core: Path,
    packages: dict[str, Path],
    model: Path | None,
    *,
    parts: int = PARTS,
    most_bytes: int = MOST_BYTES,
) -> list[Path]:
    """Writes the folders of all calls; what they held is replaced.

    Args:
        folder: Where they go, named 1, 2 and so on.
        core: The compiled core.
        packages: Files of packages by their place on Python's path.
        model: The model's file; None carries none, in one folder.
        parts: Of the model.
        most_bytes: That a folder may have.

    Returns:
        The folders.

    Raises:
        CarryError: A call would have more bytes; nothing is left of it.
        OSError: A file cannot be read or written.
    """
    compressed = lzma.compress(core.read_bytes(), preset=6)
    archive = lzma.compress(_archived(packages), preset=6)
    facts: dict[str, Any] = {
        "core": _hash(core.read_bytes()),
        "packages": _hash(archive),
        "parts": parts if model is not None else 0,
    }
    size = 0
    if model is not None:
        size = model.stat().st_size
        with model.open("rb") as file:
            facts["model"] = {
                "name": model.name,
                "bytes": size,
                "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
            }
    length = -(-size // parts)
    whole = len(compressed) + len(archive) + length + len(json.dumps(facts)) + 32
    if whole > most_bytes:
        raise CarryError(
            f"a call would carry {whole} bytes ({len(compressed)} of the core, {len(archive)} of "
            f"packages, {length} of the model), at most {most_bytes} may be"
        )
    written = []
    for part in range(parts if model is not None else 1):
        target = folder / str(part + 1)
        target.mkdir(parents=True, exist_ok=True)
        (target / _CORE).write_bytes(compressed)
        (target / _PACKAGES).write_bytes(archive)
        (target / _PART).unlink(missing_ok=True)
        if model is not None:
            with model.open("rb") as file:
                file.seek(part * length)
                (target / _PART).write_bytes(file.read(length))
        (target / _MANIFEST).write_text(json.dumps(facts | {"part": part}), encoding="utf-8")
        written.append(target)
    return written


def unpack(carried: Path, kept: Path, core: Path) -> dict[str, str]:
    """Puts in place what a call carried; joins the model once all of its parts have come.

    Args:
        carried: A folder of `pack`.
        kept: Keeps packages, parts and model until the machine goes back.
        core: Where the compiled core belongs.

    Returns:
        Variables for the shell: PYTHONPATH, and VISIT_MODEL once the model is whole.

    Raises:
        CarryError: A file is damaged.
        OSError: A file is missing or cannot be written.
    """
    facts = json.loads((carried / _MANIFEST).read_text(encoding="utf-8"))
    compiled = _decompressed(carried / _CORE)
    archive = (carried / _PACKAGES).read_bytes()
    _check(_CORE, _hash(compiled), facts["core"])
    _check(_PACKAGES, _hash(archive), facts["packages"])
    _replace(core, compiled)
    packages = kept / "packages"
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(archive))) as files:
        files.extractall(packages, filter="data")
    paths = [str(packages.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYTHONPATH": os.pathsep.join(paths)}
    model = facts.get("model")
    if model is not None:
        _replace(kept / _name_of(model, facts["part"]), (carried / _PART).read_bytes())
        whole = _joined(kept, model, facts["parts"])
        if whole is not None:
            variables["VISIT_MODEL"] = str(whole.resolve())
    return variables


def _name_of(model: dict[str, Any], part: int) -> str:
    return f"{model['sha256'][:16]}.{part}"


def _joined(kept: Path, model: dict[str, Any], parts: int) -> Path | None:
    """The model's file, of parts that have all come; None until then."""
    places = [kept / _name_of(model, part) for part in range(parts)]
    if not all(place.is_file() for place in places):
        return None
    whole = kept / Path(model["name"]).name
    joining = whole.with_suffix(".joining")
    digest = hashlib.sha256()
    with joining.open("wb") as file:
        for place in places:
            content = place.read_bytes()
            digest.update(content)
            file.write(content)
    _check(model["name"], digest.hexdigest(), model["sha256"])
    joining.replace(whole)
    return whole


def _installed(names: Sequence[str]) -> dict[str, Path]:
    """The files of installed distributions by their place on Python's path."""
    found = {}
    for name in names:
        for file in metadata.distribution(name).files or ():
            # Scripts lie elsewhere, and compiled files belong to one version of Python.
            if ".." not in file.parts and file.suffix != ".pyc":
                found[str(file)] = Path(str(file.locate()))
    return {place: path for place, path in found.items() if path.is_file()}


def _archived(files: dict[str, Path]) -> bytes:
    """A tar archive that knows nothing of times, owners or the order of a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for place, content in _sorted(files):
            entry = tarfile.TarInfo(place)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _sorted(files: dict[str, Path]) -> Iterator[tuple[str, bytes]]:
    for place in sorted(files):
        yield place, files[place].read_bytes()


def _decompressed(path: Path) -> bytes:
    try:
        return lzma.decompress(path.read_bytes())
    except lzma.LZMAError as error:
        raise CarryError(f"{path.name} is damaged: {error}") from error


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


def _check(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise CarryError(f"{name} is damaged: its hash is {found}, expected {expected}")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    sys.exit(main())
