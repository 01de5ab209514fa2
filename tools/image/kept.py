"""`python -m tools.image.kept`: a root of Debian with Python and no compiler, which lies in the cache from then on.

Nothing writes to it later: who needs one copies it. Its folder may be removed to have a newer Debian.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spectrie.model.files.store import cache_folder
from tools.image.base import suite_of
from tools.image.root import Failed, Root, missing
from tools.kube.node.dockerfile import arguments

__all__ = ["keep", "kept_root"]

_DOCKERFILE = Path(__file__).resolve().parents[2] / "deploy" / "Dockerfile"
_PACKAGES = ("python3", "python3-venv")
_UNFINISHED = ".unfinished."


def kept_root() -> Path:
    """Where the root lies, of the Debian that images are made of; it need not be there."""
    suite = suite_of(arguments(_DOCKERFILE)["BASE"])
    return cache_folder() / "roots" / "-".join((suite, *_PACKAGES))


def keep(place: Path, make: Callable[[Path], None]) -> None:
    """Has a folder made that is not there; a half-made one never lies in its place.

    Args:
        place: The folder.
        make: Makes it at another path beside it.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in place.parent.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)
        if place.exists():
            return
        scratch = Path(tempfile.mkdtemp(dir=place.parent, prefix=_UNFINISHED))
        try:
            make(scratch / "root")
            (scratch / "root").rename(place)
        finally:
            shutil.rmtree(scratch)


def _debootstrap(folder: Path) -> None:
    root = Root(folder, folder.with_name("log"))
    words = ["debootstrap", "--force-check-gpg", "--variant=minbase"]
    words += [f"--include={','.join(_PACKAGES)}", suite_of(arguments(_DOCKERFILE)["BASE"])]
    # In a mount namespace of its own, where there may be one: what it mounts does not outlast it.
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0:
        words = ["unshare", "--mount", *words]
    root.command(*words, str(folder))
    for package in (folder / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()


def main() -> int:
    """Returns the exit code: 1 where this machine can have no such root, which stderr explains."""
    place, begun = kept_root(), time.monotonic()
    lacks = missing()
    if lacks is not None:
        print(f"a root of Debian needs {lacks}", file=sys.stderr)
        return 1
    if not place.exists():
        print(f"==> debootstrap makes {place} (once, 1 to 5 minutes)", flush=True)
        try:
            keep(place, _debootstrap)
        except Failed as error:
            print(f"debootstrap made no root: {error}", file=sys.stderr)
            return 1
    print(f"==> root {place.name}, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
