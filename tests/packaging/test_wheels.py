"""Both wheels, installed into clean environments outside the checkout, import and serve."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiny_model import write_tiny_model

ROOT = Path(__file__).resolve().parents[2]
# The checkout must not be importable: what the wheels lack has to show.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "VIRTUAL_ENV", "SPECTRIE_"))
}


def run(*command: str | Path, cwd: Path, timeout_s: float = 600) -> str:
    done = subprocess.run(
        [str(one) for one in command],
        cwd=cwd,
        env=CLEAN,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the install script reads: fresh wheels, the lock and the script itself."""
    folder = tmp_path_factory.mktemp("install")
    for name in ("deploy/install.sh", "tools/uv.txt", "requirements.lock"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    python = ROOT / ".venv/bin/python"
    run(
        python,
        "-m",
        "maturin",
        "build",
        "--release",
        "--locked",
        "--out",
        folder / "dist",
        cwd=ROOT,
    )
    # A copy, because setuptools builds inside the source folder.
    kernels = folder / "kernels"
    shutil.copytree(ROOT / "kernels", kernels, ignore=shutil.ignore_patterns("*.egg-info", "build"))
    build = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"
    run(python, "-c", build, folder / "dist", cwd=kernels)
    return folder


@pytest.fixture(scope="module")
def base(checkout: Path) -> Path:
    """Scripts folder of an environment with the base install alone."""
    prefix = checkout / "base"
    run("deploy/install.sh", "--prefix", prefix, "--role", "router", cwd=checkout)
    return prefix / "bin"


@pytest.fixture(scope="module")
def full(checkout: Path) -> Path:
    """Scripts folder of an environment with spectrie[worker]."""
    prefix = checkout / "full"
    run("deploy/install.sh", "--prefix", prefix, cwd=checkout)
    return prefix / "bin"


def test_wheels_hold_every_source_file_and_the_licences(checkout: Path) -> None:
    names: set[str] = set()
    for wheel in (checkout / "dist").glob("*.whl"):
        names |= set(zipfile.ZipFile(wheel).namelist())
    for root in (ROOT / "python", ROOT / "kernels"):
        for path in (*root.rglob("*.py"), *root.rglob("*.pyi"), *root.rglob("py.typed")):
            relative = path.relative_to(root)
            if relative.parts[0] in {"spectrie", "spectrie_kernels"}:
                assert str(relative) in names
    assert "spectrie/_core.abi3.so" in names
    licences = {Path(name).name for name in names if ".dist-info/licenses/" in name}
    assert licences >= {"LICENSE", "THIRD_PARTY_LICENSES.md"}


def test_wheel_and_source_archive_hold_the_heads_that_ship(checkout: Path, tmp_path: Path) -> None:
    files = [
        path for path in (ROOT / "python/spectrie/model/sources/heads").rglob("*") if path.is_file()
    ]
    # There is one even while no head ships.
    assert ROOT / "python/spectrie/model/sources/heads/README.md" in files
    wheel = zipfile.ZipFile(next((checkout / "dist").glob("spectrie-*.whl")))
    python = ROOT / ".venv/bin/python"
    run(python, "-m", "maturin", "sdist", "--out", tmp_path, cwd=ROOT)
    with tarfile.open(next(tmp_path.glob("spectrie-*.tar.gz"))) as archive:
        for path in files:
            assert wheel.read(str(path.relative_to(ROOT / "python"))) == path.read_bytes()
            root = archive.getnames()[0].partition("/")[0]
            stored = archive.extractfile(f"{root}/{path.relative_to(ROOT)}")
            assert stored is not None and stored.read() == path.read_bytes()


def test_base_install_imports_without_torch(base: Path, tmp_path: Path) -> None:
    program = (
        "import importlib.util, spectrie; spectrie.Client; spectrie.AsyncClient;"
        "print(importlib.util.find_spec('torch') is None, importlib.util.find_spec('numpy') is None)"
    )
    assert run(base / "python", "-c", program, cwd=tmp_path).split() == ["True", "True"]
    assert run(base / "spectrie", "--version", cwd=tmp_path).startswith("spectrie ")


def test_model_in_the_process_names_the_line_that_installs_what_it_needs(
    base: Path, tmp_path: Path
) -> None:
    program = (
        "import spectrie\ntry: spectrie.LLM\nexcept spectrie.SpectrieError as error: print(error)"
    )
    printed = run(base / "python", "-c", program, cwd=tmp_path)
    assert "numpy" in printed and "pip install 'spectrie[cpu]'" in printed


def test_install_over_an_earlier_one_takes_its_place(base: Path, checkout: Path) -> None:
    (own,) = base.parent.glob("lib/python*/site-packages/spectrie/version.py")
    # The file itself may be uv's own copy.
    own.unlink()
    own.write_text("an earlier build\n")
    run("deploy/install.sh", "--prefix", base.parent, "--role", "router", cwd=checkout)
    assert own.read_bytes() == (ROOT / "python/spectrie/version.py").read_bytes()


def test_base_install_replays_recorded_requests(base: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text('{"prompt_ids": [1, 2, 3, 1], "output_ids": [2, 3]}\n')
    printed = run(
        base / "spectrie", "replay", "--input", "trace.jsonl", "--json", cwd=tmp_path, timeout_s=60
    )
    assert json.loads(printed)["accepted_tokens"] == 2


def test_base_install_names_what_a_worker_needs(base: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [base / "spectrie", "worker", str(tmp_path)],
        cwd=tmp_path,
        env=CLEAN,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "pip install 'spectrie[cpu]'" in done.stderr


@pytest.fixture(scope="module")
def cpu(checkout: Path) -> Path:
    """Scripts folder of an environment with spectrie[cpu]."""
    prefix = checkout / "cpu"
    run("deploy/install.sh", "--prefix", prefix, "--role", "cpu", cwd=checkout)
    return prefix / "bin"


def test_install_for_a_cpu_runs_a_model_without_torch(cpu: Path, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny")
    answer = run(
        cpu / "spectrie", "generate", model, "hello", "--max-tokens=4", "--json", cwd=tmp_path
    )
    assert json.loads(answer)["usage"]["completion_tokens"] <= 4
    find = (
        "import importlib.util as u; print(*(u.find_spec(n) is None for n in ('torch', 'triton')))"
    )
    assert run(cpu / "python", "-c", find, cwd=tmp_path).split() == ["True", "True"]


@pytest.fixture
def server(full: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A server on a tiny random model, run by the installed command alone."""
    model = write_tiny_model(tmp_path / "tiny")
    arguments = ["serve", str(model), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    process = subprocess.Popen(
        [str(full / "spectrie"), *arguments],
        cwd=tmp_path,
        env=CLEAN | {"SPECTRIE_CACHE": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("spectrie ready "):
                yield json.loads(line.removeprefix("spectrie ready "))
                break
        else:
            pytest.fail(f"the server ended with {process.wait(10)} before it was ready")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_installed_server_answers(server: dict[str, str], full: Path, tmp_path: Path) -> None:
    program = (
        "import sys, spectrie\n"
        "with spectrie.Client(sys.argv[1], timeout=60) as client:\n"
        "    print(len(client.generate('hello', max_tokens=4, ignore_eos=True).token_ids))"
    )
    assert run(full / "python", "-c", program, server["grpc"], cwd=tmp_path).strip() == "4"
