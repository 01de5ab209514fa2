"""`spectrie[cpu]` in a bare Debian, from its wheels: it computes, serves and drains without torch or a compiler."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.model.torch_free import MISSING
from tests.packaging.root.computing import PYTHON, computed
from tests.packaging.root.conftest import Compare
from tests.packaging.root.entered import USER, enter
from tests.tiny_model import write_tiny_model
from tests.waiting import wait_until

COMPILERS = ("as", "c++", "c99", "cc", "clang", "g++", "gcc", "ld", "rustc")
STREAMING = ROOT / "tests" / "deploy" / "streaming.py"
STREAMS, TOKENS = 4, 6000
PATIENCE_S = 240


def test_root_has_neither_a_compiler_nor_what_a_cpu_does_without(
    root: Path, tmp_path: Path, is_contained: bool
) -> None:
    folders = [root / name for name in ("usr/bin", "usr/local/bin", "opt/spectrie/bin")]
    assert [name for name in COMPILERS for folder in folders if (folder / name).exists()] == []
    program = (
        "import importlib.util as u, os, spectrie\n"
        f"print(os.getuid(), spectrie.__file__, *(n for n in {MISSING!r} if u.find_spec(n)))"
    )
    words = [PYTHON, "-c", program]
    with enter(root, tmp_path / "x", words, volumes={}, is_contained=is_contained) as inside:
        assert inside.wait(PATIENCE_S) == 0, inside.log
        user, place, *found = inside.log.split()
    assert (int(user), found) == (USER, [])
    assert place.startswith("/opt/spectrie/")


def test_wheel_computes_what_the_checkout_does(root: Path, compare: Compare) -> None:
    compare(root)


def test_server_answers_and_loses_no_stream_when_it_drains(
    root: Path, tmp_path: Path, is_contained: bool
) -> None:
    model = write_tiny_model(tmp_path / "models/tiny", max_context=8192)
    (tmp_path / "cache").mkdir()
    volumes = {"/models": model.parent, "/cache": tmp_path / "cache"}
    words = ["/opt/spectrie/bin/spectrie", "serve", "/models/tiny", "--drain-timeout=600"]
    words += ["--http=127.0.0.1:0", "--grpc=127.0.0.1:0"]
    with enter(root, tmp_path / "x", words, volumes=volumes, is_contained=is_contained) as inside:

        def is_ready() -> bool:
            assert inside.exit_code is None, inside.log
            return "spectrie ready " in inside.log

        wait_until(is_ready, PATIENCE_S, lambda: inside.log)
        ready = next(one for one in inside.log.splitlines() if one.startswith("spectrie ready "))
        address = json.loads(ready.removeprefix("spectrie ready "))["http"]
        client_words = [sys.executable, str(STREAMING), f"http://{address}/v1", "tiny"]
        with inside.beside(*client_words, str(STREAMS), str(TOKENS)) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "running\n", client.stdout.read()
            inside.terminate()
            (line,) = client.stdout.read().splitlines()
        assert json.loads(line) == [f"length {TOKENS}"] * STREAMS
        assert inside.wait(PATIENCE_S) == 0, inside.log


def test_root_cannot_be_written_to(root: Path, tmp_path: Path, is_contained: bool) -> None:
    if not is_contained:
        pytest.skip("NOT DECIDED: mounting is refused here")
    for place in ("/opt/spectrie/x", "/etc/x", "/x"):
        folder = tmp_path / place.replace("/", "-")
        with enter(root, folder, ["touch", place], volumes={}, is_contained=True) as inside:
            assert inside.wait(PATIENCE_S) != 0
            assert f"cannot touch '{place}': Read-only" in inside.log


@contextmanager
def without_core(site: Path) -> Iterator[None]:
    core = site / "spectrie/_core.abi3.so"
    aside = core.rename(core.with_name("aside"))
    try:
        yield
    finally:
        aside.rename(core)


@contextmanager
def with_torch(site: Path) -> Iterator[None]:
    """As if something that a worker loads imported torch."""
    files = {"torch.py": "", "loads_torch.pth": "import torch\n"}
    for name, text in files.items():
        (site / name).write_text(text)
    try:
        yield
    finally:
        for name in files:
            (site / name).unlink()


@pytest.mark.parametrize(
    ("spoilt", "complaint"),
    [(without_core, "this is the client alone"), (with_torch, "loaded: .'torch'")],
)
def test_a_broken_install_is_refused(
    root: Path,
    cases: Path,
    tmp_path: Path,
    is_contained: bool,
    spoilt: Callable[[Path], AbstractContextManager[None]],
    complaint: str,
) -> None:
    (site,) = (root / "opt/spectrie/lib").glob("python3*/site-packages")
    with spoilt(site), pytest.raises(AssertionError, match=complaint):
        computed(root, cases, tmp_path, folders=[], is_contained=is_contained)
