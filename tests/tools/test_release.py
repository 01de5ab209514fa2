"""The wheel for every platform that a release makes of a binary one."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.release.client import bill_of, make_client_wheel
from tools.release.index import own_wheel

ROOT = Path(__file__).resolve().parents[2]
INFO = "spectrie-1.2.3.dist-info"
BILL = b'{"bomFormat": "CycloneDX"}'


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """A binary wheel of the real sources, whose core is no library."""
    path = tmp_path / "spectrie-1.2.3-cp311-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file in sorted((ROOT / "python/spectrie").rglob("*.py*")):
            if file.suffix in (".py", ".pyi"):
                wheel.write(file, file.relative_to(ROOT / "python"))
        wheel.writestr("spectrie/_core.abi3.so", b"machine code")
        wheel.writestr(
            f"{INFO}/METADATA", "Metadata-Version: 2.4\nName: spectrie\nVersion: 1.2.3\n"
        )
        wheel.writestr(
            f"{INFO}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: maturin\nRoot-Is-Purelib: false\n"
            "Tag: cp311-abi3-manylinux_2_28_x86_64\n",
        )
        wheel.writestr(f"{INFO}/sboms/spectrie-py.cyclonedx.json", BILL)
        wheel.writestr(f"{INFO}/RECORD", "stale")
    return path


def test_client_wheel_fits_every_platform_and_holds_no_core(binary: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = make_client_wheel(binary, tmp_path / "out")
    assert path.name == "spectrie-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        assert not [name for name in names if name.endswith(".so") or "/sboms/" in name]
        assert {"spectrie/client/sync.py", "spectrie/_core.pyi", f"{INFO}/METADATA"} <= set(names)
        text = wheel.read(f"{INFO}/WHEEL").decode()
        assert "Root-Is-Purelib: true" in text
        assert [line for line in text.splitlines() if line.startswith("Tag:")] == [
            "Tag: py3-none-any"
        ]
        records = list(csv.reader(io.StringIO(wheel.read(f"{INFO}/RECORD").decode())))
        assert sorted(name for name, _, _ in records) == sorted(names)
        for name, digest, size in records:
            if not name.endswith("/RECORD"):
                data = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                assert (digest, size) == (f"sha256={expected.decode()}", str(len(data)))


def test_client_without_a_core_imports_and_says_why_it_does_not_serve(
    binary: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    path = make_client_wheel(binary, tmp_path / "out")
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path / "site")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import spectrie; spectrie.Client\n"
        "from spectrie.cli import main; sys.exit(main(['router']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "site")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "this is the client alone" in done.stderr
    assert "Traceback" not in done.stderr


def test_bill_of_materials_is_that_of_the_wheel(binary: Path, tmp_path: Path) -> None:
    assert json.loads(bill_of(binary)) == json.loads(BILL)
    empty = tmp_path / "spectrie-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(empty, "w"):
        pass
    with pytest.raises(LookupError, match="has 0 bills of materials"):
        bill_of(empty)


def test_wheel_of_this_processor_is_found_among_those_of_others(tmp_path: Path) -> None:
    names = [f"spectrie-1-cp311-abi3-manylinux_2_28_{one}.whl" for one in ("aarch64", "x86_64")]
    for name in (*names, "spectrie-1-py3-none-any.whl"):
        (tmp_path / name).touch()
    assert own_wheel(tmp_path, "x86_64").name == names[1]
    assert own_wheel(tmp_path, "aarch64").name == names[0]
    with pytest.raises(LookupError, match="riscv64"):
        own_wheel(tmp_path, "riscv64")
