"""Compiles a rival's sources into an extension module, once, in the cache."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from bench.draft.rivals.base import Absent
from bench.support.packages import Package, cache_folder, fetch, members

__all__ = ["compile_module", "load", "unpack"]

_TIMEOUT_S = 900


def unpack(package: Package, wanted: Sequence[str]) -> Path:
    """Folder with the members of a package whose names contain one of `wanted`.

    Raises:
        Absent: The package cannot be fetched.
    """
    folder = cache_folder() / "sources" / f"{package.file}-{package.sha256[:12]}"
    if folder.exists():
        return folder
    try:
        archive = fetch(package)
    except (OSError, ValueError) as error:
        raise Absent(f"{package.file} cannot be had: {error}") from error
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for name, content in members(archive):
        if any(piece in name for piece in wanted):
            target = part / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    if not part.exists():
        raise Absent(f"{package.file} has nothing of {', '.join(wanted)}")
    part.rename(folder)
    return folder


def compile_module(
    name: str, sources: Sequence[Path], include: Sequence[Path], defines: Sequence[str] = ()
) -> Path:
    """An extension module of these sources.

    Args:
        name: Name of the module.
        sources: C++ files.
        include: Folders of headers.
        defines: Preprocessor names.

    Raises:
        Absent: There is no compiler, or it refuses.
    """
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise Absent("no C++ compiler on this machine")
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    target = cache_folder() / "built" / key / f"{name}{suffix}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"  compiling {name} (a minute)", file=sys.stderr, flush=True)
    part = target.with_suffix(".part")
    command = [compiler, "-O3", "-DNDEBUG", "-std=c++20", "-shared", "-fPIC", "-w", "-pthread"]
    command += ["-fvisibility=hidden", "-fno-strict-aliasing", "-march=native"]
    command += [f"-D{define}" for define in defines]
    command += [f"-I{folder}" for folder in (sysconfig.get_paths()["include"], *include)]
    command += ["-o", str(part), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    if done.returncode:
        raise Absent(f"{name} does not compile here: {done.stderr.strip()[:400]}")
    part.rename(target)
    return target


def load(name: str, path: Path) -> ModuleType:
    """Imports a compiled module under `name`."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Absent(f"{path} is no extension module of this interpreter")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
