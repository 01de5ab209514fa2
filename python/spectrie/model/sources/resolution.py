"""Resolves what a user passes as MODEL to a folder in the Hugging Face layout."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectrie.errors import ModelError
from spectrie.model.files.store import Report, publish
from spectrie.model.gguf.conversion import FORMAT, convert
from spectrie.model.gguf.file import GgufFile
from spectrie.model.sources.catalog import CATALOG, Alias
from spectrie.model.sources.wheel import fetch_wheel, open_wheel

__all__ = ["ResolvedModel", "fetch", "provenance_of", "resolve"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model", "LICENSE*"]


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model on this machine.

    Attributes:
        folder: Folder with config.json, tokenizer.json and safetensors.
        name: Its name: the alias, the Hugging Face id, or the folder's or file's own name.
    """

    folder: Path
    name: str


def resolve(model: str | os.PathLike[str], report: Report | None = None) -> ResolvedModel:
    """Returns a model's folder; fetches or converts the model the first time.

    Args:
        model: A folder, a `.gguf` file, an alias such as `smollm2-135m`, or a Hugging Face id.
        report: Receives lines of progress; None for silence.

    Raises:
        ModelError: There is no such model, or it cannot be fetched, read or converted.
    """
    report = report or _silent
    text = os.fspath(model)
    path = Path(text).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"the folder {path} has no config.json, so it is not a model")
        return ResolvedModel(path.absolute(), path.resolve().name)
    if path.suffix == ".gguf":
        return ResolvedModel(_converted(path, report), path.stem)
    if text in CATALOG:
        return ResolvedModel(fetch(text, report=report), text)
    if path.is_file():
        raise ModelError(f"{path} is not a .gguf file: give one, or a folder with config.json")
    if _HUB_ID.fullmatch(text):
        return ResolvedModel(_from_hub(text, report), text)
    raise ModelError(
        f"no model {text!r}: MODEL is a folder with config.json, a .gguf file, a Hugging Face id "
        f"(owner/name), or one of: {', '.join(CATALOG)}"
    )


def fetch(name: str, *, wheel: Path | None = None, report: Report | None = None) -> Path:
    """Returns the folder of an alias; fetches and converts the model if it is absent.

    Args:
        name: An alias of the catalog.
        wheel: A wheel on this machine, used instead of fetching one.
        report: Receives lines of progress; None for silence.

    Raises:
        ModelError: The alias is unknown, the fetch failed, the wheel is not the pinned one, or the
            folder is full or not writable.
    """
    if name not in CATALOG:
        raise ModelError(f"no model {name!r} to fetch; available: {', '.join(CATALOG)}")
    alias = CATALOG[name]
    report = report or _silent

    def make(folder: Path) -> None:
        work = folder / "work"
        work.mkdir()
        try:
            unpack(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def unpack(work: Path, folder: Path) -> None:
        if wheel is None:
            payload = fetch_wheel(alias, work, report)
        else:
            payload = open_wheel(wheel, alias, work, report)
        if payload.licence is not None:
            shutil.copyfile(payload.licence, folder / "LICENSE")
        convert(GgufFile(payload.gguf), folder, _origin(alias), report)

    return publish(name, _is_current, make, report)


def provenance_of(folder: Path) -> dict[str, Any] | None:
    """Returns the contents of a converted model's provenance.json, or None if there is none."""
    try:
        contents = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return contents if isinstance(contents, dict) else None


def _is_current(folder: Path) -> bool:
    """Returns whether `folder` has this format and every file its original size."""
    provenance = provenance_of(folder)
    if provenance is None or provenance.get("format") != FORMAT:
        return False
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size
        for name, size in provenance.get("files", {}).items()
    )


def _origin(alias: Alias) -> dict[str, Any]:
    return {
        "name": alias.title,
        "license": alias.license,
        "source": f"PyPI {alias.requirement}, {alias.member}",
        "sha256": alias.wheel_sha256,
    }


def _converted(path: Path, report: Report) -> Path:
    try:
        status = path.stat()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    # Size and time stand for the contents: hashing gigabytes at every start would be felt.
    identity = f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "_", path.stem).lstrip(".") + "-" + digest

    def make(folder: Path) -> None:
        convert(GgufFile(path), folder, {"source": str(path.resolve())}, report)

    return publish(name, _is_current, make, report)


def _from_hub(name: str, report: Report) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ImportError as error:
        raise ModelError(
            f"fetching the Hugging Face model {name!r} requires the huggingface_hub package: "
            "pip install huggingface_hub, or give a folder"
        ) from error
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    report(f"looking for {name} {'in the local cache' if offline else 'on the Hugging Face hub'}")
    try:
        folder = snapshot_download(name, allow_patterns=_HUB_FILES, local_files_only=offline)
    except LocalEntryNotFoundError as error:
        why = "HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
        raise ModelError(f"{name} is not in the local cache, and {why}") from error
    except Exception as error:  # of the hub client: not found, gated, no disk
        first = str(error).strip().splitlines()
        raise ModelError(f"cannot fetch {name}: {first[0] if first else error!r}") from error
    return Path(folder)


def _silent(_line: str) -> None:
    pass
