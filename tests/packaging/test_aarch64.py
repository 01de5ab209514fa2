"""The wheel of aarch64 that `make release` makes, run by qemu: its answers are those of the wheel of x86_64."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.foreign import install, missing, unpack
from tests.tiny_model import write_tiny_model
from tools.release.index import own_wheel

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "release"
IDS = Path(__file__).with_name("ids.py")
# Processors without instructions of their own for bfloat16, which add in another order.
CPUS = {"aarch64": "cortex-a72", "x86_64": "Haswell"}
PATIENCE_S = 1200

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Debian's Python for aarch64."""
    reason = missing()
    if reason is None and not RELEASE.exists():
        reason = f"there is no {RELEASE.name}/, which make release makes"
    folder = tmp_path_factory.mktemp("arm64")
    reason = reason or unpack(folder, "arm64")
    if reason is not None:
        pytest.skip(f"NOT RUN: {reason}")
    yield folder
    shutil.rmtree(folder)


def run(words: list[str | Path], site: Path, folder: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPECTRIE_")}
    env = kept | {"PYTHONPATH": str(site), "SPECTRIE_CACHE": str(folder / "cache")}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def answers(machine: str, python: list[str | Path], model: Path, folder: Path) -> dict[str, Any]:
    """What the wheel of a processor answers, in a folder of its own."""
    emulated: list[str | Path] = [f"qemu-{machine}", "-cpu", CPUS[machine], *python]
    text = "import sys; print(*sys.version_info[:2], sep='.')"
    version = run([*emulated, "-c", text], folder, folder).strip()
    site = folder / "site"
    wheel, lock = own_wheel(RELEASE, machine), ROOT / "requirements.lock"
    install(wheel, site, machine=machine, python=version, lock=lock)
    result: dict[str, Any] = json.loads(run([*emulated, IDS, model], site, folder))
    assert result["machine"] == machine
    return result["found"]  # type: ignore[no-any-return]


def test_wheel_of_aarch64_answers_as_that_of_x86_64(root: Path, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny")
    pythons: dict[str, list[str | Path]] = {
        "aarch64": ["-L", root, root / "usr/bin/python3"],
        "x86_64": [sys.executable],
    }
    found = {}
    for machine, python in pythons.items():
        (tmp_path / machine).mkdir()
        found[machine] = answers(machine, python, model, tmp_path / machine)
    assert found["aarch64"] == found["x86_64"]
    for dtype, ways in found["aarch64"].items():
        assert "/lanes16-fused/" in ways.pop("fingerprint")
        counts = {name: len(ids) for name, ids in ways.items()}
        print(f"{dtype}: equal ids on both processors: {counts}")
        assert set(counts.values()) == {192}
        assert ways["greedy"] != ways["drawn"]
