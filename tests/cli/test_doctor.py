"""What `spectrie doctor` says of a GPU, on a simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from spectrie.cli import main
from spectrie.model.machine import FAST_ON_GPU

pytest.importorskip("torch")

import torch

import spectrie_kernels
from bench.gpu.simulated import NAME, simulated_gpu
from spectrie.model import gpu
from spectrie.model.decoder import linear
from spectrie_kernels import LinearWeight
from tests.tiny_model import write_tiny_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    with simulated_gpu():
        yield write_tiny_model(tmp_path / "tiny")


def lines(model: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What is printed of each check, its mark first."""
    main(["doctor", model])
    printed = capsys.readouterr().out.splitlines()
    return {line[6:17].strip(): f"{line[:4]} {line[18:]}" for line in printed}


def test_a_gpu_is_named_with_its_memory_driver_and_compilers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(str(folder), capsys)["gpu"] == (
        f"ok   {NAME}, 0.1 of 0.1 GiB free, driver 1.2.3, torch {version('torch')}, simulated, cc"
    )


def test_a_gpu_that_is_exact_with_a_model_is_called_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "each row alone, and so does the CPU" in lines(str(folder), capsys)["exactness"]
    unknown = lines("smollm2-135m", capsys)["exactness"]
    assert unknown.startswith("ok") and "a model that is stored" in unknown


def test_the_products_that_are_not_exact_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = spectrie_kernels.linear

    class Kernels:
        def __getattr__(self, name: str) -> object:
            return getattr(spectrie_kernels, name)

        def linear(
            self, x: torch.Tensor, weight: LinearWeight, out: torch.Tensor, **options: Any
        ) -> torch.Tensor:
            right(x, weight, out, **options)
            return out.add_(1.0 if len(x) > 30 and out.shape[1] == 352 else 0.0)

    monkeypatch.setattr(linear, "spectrie_kernels", Kernels())
    found = lines(str(folder), capsys)["exactness"]
    assert found.startswith("note")
    assert "rows change one another's bytes in head of 352 x 64" in found
    assert FAST_ON_GPU in found


def test_what_is_missing_to_compile_is_said_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "host_compiler", lambda: None)
    assert "FAIL" in (found := lines(str(folder), capsys)["gpu"]) and "install gcc" in found
    monkeypatch.setattr(gpu, "compiler", lambda: None)
    missing = lines(str(folder), capsys)
    assert missing["gpu"].startswith("note") and missing["gpu"].endswith("install triton")
    assert "since Triton is not installed" in missing["exactness"]
