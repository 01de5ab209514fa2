"""`python -m tools.release FOLDER`: wheels, sources, bill of materials and checksums, as one local index.

The folder then holds all that `pip install --no-index --find-links FOLDER 'spectrie[cpu]'` needs on a Linux of this
processor and Python. The core is built for manylinux_2_28 of x86_64 and aarch64: zig, in an environment of its own, links against
that C library.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.release.client import bill_of, make_client_wheel
from tools.release.folder import Occupied, fresh, write_sums
from tools.release.index import PYTHONS, fetch_packages, own_wheel

ROOT = Path(__file__).resolve().parents[2]
_PYTHON = sys.executable
_BUILDERS = ("maturin==1.16.0", "ziglang==0.17.1")
_TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the place; an earlier release there is replaced")
    parser.add_argument("--profile", default="dist", help="cargo profile [dist]")
    parser.add_argument("--target", action="append", help=f"a Rust target [{', '.join(_TARGETS)}]")
    parser.add_argument("--uv", default="uv", help="the uv that builds and fetches [uv]")
    given = parser.parse_args()
    place: Path = given.folder.absolute()
    try:
        with fresh(place) as folder:
            _make(folder, given.profile, given.target or list(_TARGETS), given.uv)
            number = write_sums(folder)
    except Occupied as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{number} files in {place}")
    return 0


def _make(folder: Path, profile: str, targets: list[str], uv: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        _run(uv, "venv", "--quiet", "--python", _PYTHON, environment)
        _run(uv, "pip", "install", "--quiet", "--python", environment, *_BUILDERS)
        for target in targets:
            _core_wheel(folder, profile, target, environment)
    _run(_PYTHON, "-m", "maturin", "sdist", "--out", folder)
    _run(
        uv,
        "build",
        "--quiet",
        "--wheel",
        "--python",
        _PYTHON,
        "--no-build-isolation",
        "--out-dir",
        folder,
        "kernels",
    )
    # uv leaves one in a folder that it writes to; it is no part of a release.
    (folder / ".gitignore").unlink(missing_ok=True)
    binary = own_wheel(folder, platform.machine())
    make_client_wheel(binary, folder)
    (folder / "spectrie.cdx.json").write_bytes(bill_of(binary))
    fetch_packages(folder, uv, binary, pythons=PYTHONS)


def _core_wheel(folder: Path, profile: str, target: str, environment: Path) -> None:
    known = _output("rustc", "--print", "sysroot").strip()
    if not (Path(known) / "lib/rustlib" / target / "lib").is_dir():
        _run("rustup", "target", "add", target)
    words = ["build", "--profile", profile, "--locked", "--out", folder, "--target", target]
    words += ["--zig", "--compatibility", "manylinux_2_28"]
    # maturin looks for zig by the first Python.
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    _run(environment / "bin/python", "-m", "maturin", *words, PATH=path)


def _run(*words: object, **more: str) -> None:
    subprocess.run([str(word) for word in words], cwd=ROOT, check=True, env=os.environ | more)


def _output(*words: str) -> str:
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
