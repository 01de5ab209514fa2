"""What `make release` makes, installed in a bare Debian from its own folder; its checksums and sources."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.root.conftest import Compare, Say, installed
from tools.release.folder import SUMS
from tools.release.index import PYTHONS

FOLDER = ROOT / "release"
# Of all packages of spectrie[cpu], without pip.
MOST_BYTES = 160_000_000

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def release() -> Path:
    if not FOLDER.exists():
        pytest.skip(f"NOT RUN: there is no {FOLDER.name}/, which make release makes")
    return FOLDER


@pytest.fixture(scope="module")
def root(
    say: Say,
    kept: Path,
    release: Path,
    is_contained: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """The root, of the release."""
    place = tmp_path_factory.mktemp("released") / "root"
    with installed(say, kept, release, place, has_net=not is_contained) as root:
        yield root


def test_checksums_are_those_of_all_files(release: Path) -> None:
    words = ["sha256sum", "--check", "--strict", "--quiet", SUMS]
    subprocess.run(words, cwd=release, check=True)
    named = {line.split()[1] for line in (release / SUMS).read_text().splitlines()}
    assert named == {path.name for path in release.iterdir()} - {SUMS}


def test_a_release_has_a_wheel_of_each_processor_and_one_of_the_client(release: Path) -> None:
    names = {path.name for path in release.glob("spectrie-*")}
    kinds = ("manylinux_2_28_x86_64.whl", "manylinux_2_28_aarch64.whl", "py3-none-any.whl", ".gz")
    assert [kind for kind in kinds if not any(name.endswith(kind) for name in names)] == []
    assert (release / "spectrie.cdx.json").exists()


def test_a_release_has_each_compiled_package_for_each_python(release: Path) -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in release.glob("*.whl"):
        name, _, python, abi, _ = path.name.split("-", 4)
        if abi == python:
            found[name].add(python)
    assert "numpy" in found
    expected = {f"cp{version.replace('.', '')}" for version in PYTHONS}
    assert {
        name: expected ^ pythons for name, pythons in found.items() if expected != pythons
    } == {}


def test_installed_release_computes_what_the_checkout_does(root: Path, compare: Compare) -> None:
    compare(root)


def test_installed_packages_have_their_size(root: Path, say: Say) -> None:
    (site,) = (root / "opt/spectrie/lib").glob("python3*/site-packages")
    files = [path for path in site.rglob("*") if path.is_file() and "pip" not in path.parts]
    size = sum(path.stat().st_size for path in files)
    say(f"==> packages of spectrie[cpu]: {size / 1e6:.0f} MB")
    assert size <= MOST_BYTES
