"""Both ends of the range of torch that pyproject.toml states: with each, what uses torch passes its tests."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.packaging.uv import uv

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".tools" / "torch"
ROOM_BYTES = 9 << 30
# How uv finds an end; everything else is pinned.
ENDS = {"lowest": "lowest-direct", "highest": "highest"}
# One process each: the interpreter would run the kernels of the others too.
SUITES = {
    "kernels in the interpreter": (
        "kernels/tests/attention/test_tree_attention.py",
        "kernels/tests/experts/test_choice.py",
        "kernels/tests/layer/test_add_norm.py",
        "kernels/tests/layer/test_compact_slots.py",
        "kernels/tests/sampling/test_row_argmax.py",
        "kernels/tests/sampling/test_verify_greedy.py",
    ),
    # Nothing fused, nothing flushed, one instruction: what bytes depend on. Not whether the compiler of this
    # release keeps every form in registers, which costs time alone.
    "code of kernels": (
        "kernels/tests/sampling/test_compile_draw.py",
        "kernels/tests/layer/test_compile_layer.py",
        "kernels/tests/attention/test_compile_attention.py::test_all_forms_use_one_instruction_and_its_step",
        "kernels/tests/test_compile_linear.py::test_segment_sums_are_added_apart_from_products",
    ),
    "models, training, LLM": (
        "tests/model/decoder/test_decoder.py",
        "tests/model/operators/test_operators.py",
        "tests/training/test_trainer.py",
        "tests/llm/test_llm.py",
    ),
}


def stated(path: str) -> str:
    """The requirement of torch in a project's file."""
    project = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    found = [*project["dependencies"], *extras.get("worker", [])]
    (torch,) = (one for one in found if re.match(r"torch\b", one))
    return str(torch)


def requirements() -> str:
    """The lock, but for torch, which is the range, and for what it brings, which is another one's otherwise."""
    brought = [re.split(r"[^\w-]", one)[0] for one in importlib.metadata.requires("torch") or []]
    own = {"torch", *brought}
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = {line.partition("==")[0]: line.rstrip(" \\") for line in lines if "==" in line}
    kept = [
        pin
        for name, pin in pins.items()
        if name not in own and not name.startswith(("cuda-", "nvidia-"))
    ]
    return "\n".join([*kept, stated("pyproject.toml"), ""])


@pytest.fixture(scope="module", params=ENDS)
def python(request: pytest.FixtureRequest) -> Path:
    """The Python of an environment with one end of the range; it is kept for the next time."""
    folder: Path = PLACE / request.param
    path: Path = folder / "bin/python"
    if not path.exists() and shutil.disk_usage(ROOT).free < ROOM_BYTES:
        pytest.skip(f"NOT RUN: an environment takes {ROOM_BYTES >> 30} GB of disk")
    if not path.exists():
        subprocess.run([uv(), "venv", "--quiet", folder], check=True)
    listed = folder / "requirements.txt"
    listed.write_text(requirements(), encoding="utf-8")
    words: list[str | Path] = [
        uv(),
        "pip",
        "install",
        "--quiet",
        "--python",
        path,
        "--requirement",
        listed,
    ]
    words += ["--resolution", ENDS[request.param], "--upgrade-package", "torch"]
    subprocess.run(words, check=True, timeout=3600)
    return path


def test_both_packages_state_the_same_range() -> None:
    assert stated("kernels/pyproject.toml") == stated("pyproject.toml")


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("suite", SUITES)
def test_torch_of_either_end_passes(python: Path, suite: str, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(ROOT / one) for one in (".", "python", "kernels"))
    env = os.environ | {"PYTHONPATH": paths, "SPECTRIE_CACHE": str(tmp_path / "cache")}
    text = "import torch, triton; print(f'torch {torch.__version__}, triton {triton.__version__}')"
    shown = subprocess.run([python, "-c", text], check=True, capture_output=True, text=True)
    words: list[str | Path] = [
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'own'}",
    ]
    words += ["-m", "not deep and not gpu and not model", *SUITES[suite]]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    print(f"{shown.stdout.strip()}: {suite}: {done.stdout.splitlines()[-1:]}")
    assert done.returncode == 0, done.stdout[-6000:]
