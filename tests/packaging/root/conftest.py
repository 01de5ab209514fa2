"""A bare Debian into which pip has installed `spectrie[cpu]` from a folder of wheels, without a network."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.packaging.root.computing import computed, expected, save_cases
from tests.packaging.uv import uv
from tools.image.container import undecided
from tools.image.kept import kept_root
from tools.image.root import missing
from tools.release.client import make_client_wheel
from tools.release.index import fetch_packages, own_wheel

# As tests/packaging/test_wheels.py has it built, so that nothing is compiled again.
BUILD = ("-m", "maturin", "build", "--release", "--locked", "--quiet", "--out")
INSTALL = """\
python3 -m venv /opt/spectrie
/opt/spectrie/bin/pip install --quiet --no-index --find-links /index 'spectrie[cpu]'
"""


Say = Callable[[str], None]
Compare = Callable[[Path], None]


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Say:
    """Prints a line at once, whether output is captured or not."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    return say


@contextmanager
def step(say: Say, name: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    say(f"==> {name}, {time.monotonic() - begun:.0f} s")


@pytest.fixture(scope="session")
def is_contained(say: Say) -> bool:
    """Whether commands in the root have it read-only."""
    reason = undecided()
    if reason is not None:
        say(f"NOT DECIDED: whether a read-only root is enough: {reason}")
    return reason is None


@pytest.fixture(scope="session")
def index(say: Say, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the test profile, the client's, and those of all that `spectrie[cpu]` asks for."""
    folder: Path = tmp_path_factory.mktemp("index")
    with step(say, "the wheel of the test profile"):
        subprocess.run([sys.executable, *BUILD, folder], cwd=ROOT, check=True)
    wheel = own_wheel(folder, platform.machine())
    make_client_wheel(wheel, folder)
    with step(say, "the wheels beside it"):
        fetch_packages(folder, uv(), wheel)
    return folder


@pytest.fixture(scope="session")
def kept() -> Path:
    """The root that is copied."""
    lacks, kept = missing(), kept_root()
    if lacks is not None or not kept.exists():
        pytest.skip(f"NOT RUN: it needs {lacks or f'{kept}, which make test-root makes'}")
    return kept


@contextmanager
def installed(say: Say, kept: Path, index: Path, root: Path, *, has_net: bool) -> Iterator[Path]:
    """A copy of a root in which pip has installed from a folder of wheels.

    Args:
        say: Prints a line.
        kept: The root.
        index: The folder of wheels.
        root: Becomes the copy.
        has_net: Whether pip has this machine's network, because it cannot be taken away.
    """
    subprocess.run(["cp", "-a", "--reflink=auto", kept, root], check=True)
    # Where a container gets its own.
    (root / "etc/hosts").touch()
    shutil.copytree(index, root / "index")
    with step(say, "pip install --no-index --find-links /index 'spectrie[cpu]', in the root"):
        words = [] if has_net else ["unshare", "--net"]
        words += ["chroot", str(root), "/bin/sh", "-euc", INSTALL]
        # Not this machine's variables, which may name an index.
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(root / "index")
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def root(
    say: Say,
    kept: Path,
    index: Path,
    is_contained: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """The root, of the test profile's wheel."""
    place = tmp_path_factory.mktemp("root") / "root"
    with installed(say, kept, index, place, has_net=not is_contained) as root:
        yield root


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the models that are computed, as `computing.py` wants it."""
    folder: Path = tmp_path_factory.mktemp("cases")
    save_cases(folder)
    return folder


@pytest.fixture
def compare(
    cases: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_contained: bool,
    say: Say,
) -> Compare:
    """Asserts that a root computes what the checkout does."""

    def compare(root: Path) -> None:
        found = computed(root, cases, tmp_path, is_contained=is_contained)
        monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "own"))
        assert found == expected(cases)
        say(f"==> {len(found)} answers of models, bigrams and heads are equal")

    return compare
