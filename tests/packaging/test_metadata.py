"""One version everywhere, and what package indexes show."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.release.index import PYTHONS

ROOT = Path(__file__).resolve().parents[2]


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


VERSION: str = toml("Cargo.toml")["workspace"]["package"]["version"]
PROJECT = toml("pyproject.toml")["project"]
CHART = yaml.safe_load((ROOT / "deploy/helm/spectrie/Chart.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("kernels/pyproject.toml", toml("kernels/pyproject.toml")["project"]["version"]),
        ("the chart", CHART["version"]),
        ("the chart's image", CHART["appVersion"]),
    ],
)
def test_every_package_has_the_version_of_the_workspace(where: str, found: str) -> None:
    assert found == VERSION, where


def test_the_core_takes_its_version_from_the_workspace() -> None:
    assert PROJECT["dynamic"] == ["version"]
    assert toml("rust/python/Cargo.toml")["package"]["version"] == {"workspace": True}


def test_a_worker_has_all_that_a_cpu_has_and_the_kernels_of_its_own_version() -> None:
    worker = PROJECT["optional-dependencies"]["worker"]
    assert "spectrie[cpu]" in worker
    assert f"spectrie-kernels=={VERSION}" in worker


def test_a_cpu_has_neither_torch_nor_what_needs_it() -> None:
    names = {re.split(r"[<>=\[]", one)[0] for one in PROJECT["optional-dependencies"]["cpu"]}
    assert names == {"numpy", "safetensors", "gguf", "grpcio-health-checking"}


def test_indexes_show_where_the_source_is_and_on_what_it_runs() -> None:
    assert PROJECT["urls"]["Source"] == toml("Cargo.toml")["workspace"]["package"]["repository"]
    assert "Operating System :: POSIX :: Linux" in PROJECT["classifiers"]
    named = "Programming Language :: Python :: 3."
    found = [one for one in PROJECT["classifiers"] if one.startswith(named)]
    # A release has wheels for each of them.
    assert [one.rpartition(" ")[2] for one in found] == list(PYTHONS)
