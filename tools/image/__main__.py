"""`python -m tools.image FOLDER`: carries out deploy/Dockerfile in roots of Debian, and packs each image it makes.

FOLDER is a layout of OCI that skopeo, podman, buildah and containerd read: `skopeo copy oci:FOLDER:cpu
docker-daemon:spectrie:0.1.0`. It takes the wheels of `dist/`, as `docker build` does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.image.builder import Builder
from tools.image.context import Context
from tools.image.layout import Layout
from tools.image.root import Failed, missing
from tools.release.folder import replaced

ROOT = Path(__file__).resolve().parents[2]
# `cuda` is left out unless asked for: its root takes 15 GB while it is made.
TARGETS = ("router", "cpu")


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "folder", type=Path, help="becomes the layout; one that is there is replaced"
    )
    parser.add_argument(
        "--target", action="append", help=f"a stage of the Dockerfile [{', '.join(TARGETS)}]"
    )
    parser.add_argument("--check", action="store_true", help="say only whether this machine can")
    given = parser.parse_args()
    place: Path = given.folder.absolute()
    lacks = missing()
    if lacks is not None:
        print(f"images need {lacks}", file=sys.stderr)
        return 1
    if given.check:
        return 0
    if place.exists() and any(place.iterdir()) and not (place / "oci-layout").exists():
        print(f"{place} holds something else than images", file=sys.stderr)
        return 2
    try:
        with (
            replaced(place) as made,
            tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.") as scratch,
        ):
            _build(made, Path(scratch), given.target or TARGETS)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    layout = Layout(place)
    for name in layout.names():
        print(f"{name}: {layout.size(name) / 1e6:.1f} MB compressed")
    return 0


def _build(folder: Path, scratch: Path, targets: tuple[str, ...]) -> None:
    # Folders of an image are for all of its users, whatever this machine's habit.
    os.umask(0o022)
    created_s = _date()
    roots = scratch / "roots"
    roots.mkdir()
    layout = Layout(folder, created_s)
    builder = Builder(
        ROOT / "deploy" / "Dockerfile",
        Context(ROOT),
        roots,
        layout,
        created_s,
        lambda line: print(line, flush=True),
    )
    for target in targets:
        builder.add(target)


def _date() -> int:
    """Of what is built, not of the building: the last commit's, unless SOURCE_DATE_EPOCH says another."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    words = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return int(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
