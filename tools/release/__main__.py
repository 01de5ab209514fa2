"""`python -m tools.release FOLDER`: wheels, sources, bill of materials and checksums, as one local index.

The folder then holds all that `pip install --no-index --find-links FOLDER 'spectrie[cpu]'` needs on a Linux of this
processor and Python. The wheel is for manylinux_2_28 where zig is installed (`pip install ziglang`), which links against that
C library; else for the C library of this machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path

from tools.release.client import bill_of, make_client_wheel
from tools.release.folder import Occupied, fresh, write_sums

ROOT = Path(__file__).resolve().parents[2]
_PYTHON = sys.executable


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the place; an earlier release there is replaced")
    parser.add_argument("--profile", default="dist", help="cargo profile [dist]")
    parser.add_argument("--target", action="append", help="a further Rust target, with zig only")
    parser.add_argument("--uv", default="uv", help="the uv that builds and fetches [uv]")
    given = parser.parse_args()
    place: Path = given.folder.absolute()
    try:
        with fresh(place) as folder:
            _make(folder, given.profile, given.target or [], given.uv)
            number = write_sums(folder)
    except Occupied as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{number} files in {place}")
    return 0


def _make(folder: Path, profile: str, targets: list[str], uv: str) -> None:
    for target in (None, *targets):
        _core_wheel(folder, profile, target)
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
    binary = next(folder.glob("spectrie-*-abi3-*.whl"))
    make_client_wheel(binary, folder)
    (folder / "spectrie.cdx.json").write_bytes(bill_of(binary))
    _packages(folder, uv, binary)


def _core_wheel(folder: Path, profile: str, target: str | None) -> None:
    has_zig = util.find_spec("ziglang") is not None
    words = ["build", "--profile", profile, "--locked", "--out", folder]
    if has_zig:
        words += ["--zig", "--compatibility", "manylinux_2_28"]
    if target is not None:
        words += ["--target", target]
    _run(_PYTHON, "-m", "maturin", *words)


def _packages(folder: Path, uv: str, wheel: Path) -> None:
    """Fetches the wheels of all that spectrie[cpu] asks for, in the versions of requirements.lock."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        _run(uv, "venv", "--quiet", "--seed", "--python", _PYTHON, environment)
        _run(
            environment / "bin/python",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--only-binary",
            ":all:",
            "--find-links",
            folder,
            "--constraint",
            _constraints(Path(scratch)),
            "--dest",
            folder,
            # This wheel, whatever an index has under the name.
            f"spectrie[cpu] @ {wheel.as_uri()}",
        )


def _constraints(folder: Path) -> Path:
    """Writes the versions of the lock without their hashes, as our own wheel has none there."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    kept = [line.rstrip(" \\") for line in lines if line and not line.startswith((" ", "#"))]
    path = folder / "constraints.txt"
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return path


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
