"""`spectrie bench --profile` on a simulated GPU: a table of one step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectrie.cli import main

pytest.importorskip("torch")

from bench.gpu.simulated import NAME, simulated_gpu
from tests.tiny_model import write_tiny_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    return write_tiny_model(tmp_path / "tiny")


def test_a_step_is_printed_by_what_it_calls(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "profile.json"
    options = ("--profile-requests", "3", "--profile-rows", "2", "--profile-context", "40")
    with simulated_gpu():
        arguments = ["bench", "--profile", str(folder), *options, "--save-result", str(result)]
        assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{NAME}, exact, bfloat16: 6 rows, 40 cached tokens each"
    assert lines[1].split()[1:] == ["kernel", "|", "launches", "|", "microseconds", "|", "%", "|"]
    assert any(line.startswith("| the host") for line in lines)
    content = json.loads(result.read_text(encoding="utf-8"))
    # Two layers, each with four products.
    products = next(one for one in content["kernels"] if one["name"] == "aten::mm")
    assert products["launches"] >= 8
    assert content["step_microseconds"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile-rows", "65"], "--profile-rows: "),
        (["--profile-requests", "500", "--profile-rows", "9"], "a step has at most 4096 rows"),
    ],
)
def test_a_step_that_cannot_be_is_refused(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulated_gpu():
        assert main(["bench", "--profile", str(folder), *arguments]) != 0
    assert message in capsys.readouterr().err


def test_without_a_gpu_there_is_nothing_to_show(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--profile", str(folder)]) != 0
    assert "torch sees none here" in capsys.readouterr().err
