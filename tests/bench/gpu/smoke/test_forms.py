"""What smoke compiles and checks is what serving launches: told from outside, by launching both."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

import spectrie_kernels
from bench.gpu.models.random_model import write_random_model
from bench.gpu.models.shapes import TINY
from bench.gpu.simulated import simulated_gpu
from bench.gpu.smoke import forms as smoke_forms
from bench.gpu.smoke.forms import Form, forms
from spectrie.model import load_runner
from spectrie.model.runner import self_check

DEVICE = Path(spectrie_kernels.__file__).parent / "device"


def all_kernels() -> set[str]:
    """Names of the kernels that are launched, by the source."""
    functions = [
        node
        for file in DEVICE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    return {one.name for one in functions if one.name.endswith("_kernel") and one.decorator_list}


def served_forms(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Form]:
    """What a model launches while its graphs are recorded; nothing is computed."""
    found: dict[str, Form] = {}
    packages = [module for module in _modules() if hasattr(module, "runs_triton")]
    assert packages
    for module in packages:
        monkeypatch.setattr(module, "runs_triton", lambda tensor: True)
    monkeypatch.setattr(self_check, "differing_form", lambda *_, **__: None)
    with simulated_gpu(), smoke_forms._launches(found):
        load_runner(folder, device="cuda", dtype="float32", num_pages=64, gpu_arithmetic="exact")
    return list(found.values())


def _modules() -> list[Any]:
    return [one for name, one in sys.modules.items() if name.startswith("spectrie_kernels")]


def test_every_kernel_of_the_package_is_compiled() -> None:
    assert {one.kernel for one in forms((TINY,), small=True)} == all_kernels()


def test_every_form_of_recorded_steps_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    served = served_forms(write_random_model(tmp_path / "tiny", TINY, max_context=256), monkeypatch)
    assert {"_unpack_kernel", "_rotate_write_kernel", "_pick_kernel"} <= {
        one.kernel for one in served
    }
    compiled = {_constants(one) for one in forms((TINY,), small=False)}
    missing = [one.name for one in served if _constants(one) not in compiled]
    assert not missing, missing


def _constants(form: Form) -> str:
    kinds = [str(one.dtype) for one in form._tensors()]
    return f"{form.kernel} {kinds} {sorted(form.keywords.items())}"
