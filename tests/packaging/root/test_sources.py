"""The sources of a release in a Debian with a C compiler and Rust: pip builds them, and what it built computes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.root.conftest import Compare, Say, step
from tests.packaging.root.entered import PREFIX
from tools.image.root import Root

FOLDER = ROOT / "release"
ENV = {
    "PATH": "/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    # As the root's own certificates: it has no package of them.
    "CARGO_HTTP_CAINFO": "/run/ca.crt",
    # `/tmp` is memory there, and what Rust leaves while it builds takes gigabytes.
    "TMPDIR": "/building",
}
COMPILER = "apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev"
INSTALL = f"""\
mkdir /building
python3 -m venv {PREFIX}
set -- /sources/spectrie-*.tar.gz
{PREFIX}/bin/pip install --quiet --no-binary spectrie "$1[cpu]"
rm -r /building /root/.cargo
"""

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def built(say: Say, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root into which pip has built the sources."""
    sources = list(FOLDER.glob("spectrie-*.tar.gz"))
    if not sources:
        pytest.skip(
            f"NOT RUN: there are no sources in {FOLDER.name}/, where make release puts them"
        )
    folder = tmp_path_factory.mktemp("sources")
    root = Root(kept, folder / "log").copy_to(folder / "root")
    # Where a container gets its own.
    (root.path / "etc/hosts").touch()
    rust = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
    shutil.copytree(rust, root.path / "opt/rust", symlinks=True)
    (root.path / "sources").mkdir()
    shutil.copy(sources[0], root.path / "sources")
    with step(say, "gcc, in the root"):
        root.run(COMPILER, ENV)
    with step(say, f"pip install {sources[0].name}, in the root"):
        root.run(INSTALL, ENV)
    yield root.path
    shutil.rmtree(root.path)


def test_what_pip_builds_computes_what_the_checkout_does(built: Path, compare: Compare) -> None:
    compare(built)
