"""A head in the package's folder is served by `--drafter auto`: named at the start and in the metrics, in every worker."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from tests.model.drafters.heads import write_tiny_head
from tests.system.server import ROOT, serve

NAME = "tiny-eagle3"


def linked(folder: Path, copy: Path, but: str) -> None:
    """A folder with links to what another holds, but for one entry."""
    copy.mkdir(parents=True)
    for path in folder.iterdir():
        if path.name != but:
            (copy / path.name).symlink_to(path)


@pytest.fixture
def python(tmp_path: Path, tiny: Path) -> Path:
    """A folder with the package of this checkout, and heads of its own."""
    package = tmp_path / "python/spectrie"
    linked(ROOT / "python/spectrie", package, but="model")
    linked(ROOT / "python/spectrie/model", package / "model", but="sources")
    sources = package / "model/sources"
    linked(ROOT / "python/spectrie/model/sources", sources, but="heads")
    head = write_tiny_head(sources / "heads" / NAME) / "model.safetensors"
    origin = json.dumps({"model_hash": model_hash(tiny, Measurements(None)), "namespaces": None})
    save_file(load_file(head), head, metadata={"format": "pt", "spectrie": origin})
    return package.parent


def metrics_of(http: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{http}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.parametrize("drafter", ["auto", NAME])
def test_a_head_that_ships_is_served_and_named(tiny: Path, python: Path, drafter: str) -> None:
    with serve(tiny, f"--drafter={drafter}", python=python) as program:
        facts = program.wait_ready()
        assert facts["workers"][0]["drafter"].startswith(f"{NAME}, eagle3 ")
        assert "trained for this model" in program.wait_line(f"drafter       {NAME}, ")
        named = f'drafter="{NAME}",kind="eagle3"}} 1'
        lines = metrics_of(facts["http"]).splitlines()
        assert [line for line in lines if line.startswith("spectrie_worker_drafter{")]
        assert all(named in line for line in lines if line.startswith("spectrie_worker_drafter{"))


def test_a_damaged_head_is_served_without_and_why_is_said(tiny: Path, python: Path) -> None:
    (python / "spectrie/model/sources/heads" / NAME / "model.safetensors").write_bytes(b"cut")
    with serve(tiny, "--drafter=auto", python=python) as program:
        facts = program.wait_ready()
        assert facts["workers"][0]["drafter"] is None
        assert f"the head {NAME} that ships is damaged" in program.wait_line("no drafter: ")
        assert "spectrie_worker_drafter{" not in metrics_of(facts["http"])
