"""A head's answers on a GPU with exact arithmetic, by Triton's interpreter: the same bytes in every way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.model.launch.drafts.scenes import written

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or find_spec("triton") is None,
    reason="needs Triton's interpreter, whose product is replaced",
)


def played(kind: str, tiny: Path, folder: Path, order: str, *scenes: str) -> dict[str, bool]:
    target, head = written(kind, tiny, folder)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.model.launch.drafts.interpreted",
            target,
            head,
            order,
            *scenes,
        ],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPECTRIE_CACHE": str(folder / "cache"),
            "TRITON_INTERPRET": "1",
        },
        capture_output=True,
        text=True,
        timeout=840,
        check=True,
    )
    found: dict[str, bool] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("eagle3_of_target", marks=pytest.mark.deep),
        pytest.param("eagle3_deep_window", marks=pytest.mark.deep),
        pytest.param("eagle3_low_rank", marks=pytest.mark.deep),
        pytest.param("dflash", marks=pytest.mark.deep),
        "dflash2",
        pytest.param("peagle_window", marks=pytest.mark.deep),
        pytest.param("mtp", marks=pytest.mark.deep),
    ],
)
def test_answers_are_the_same_bytes_alone_in_company_and_in_chunks(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    found = played(kind, tiny, tmp_path, "ascending", "chunks", "recorded steps", "company")
    assert found == {"chunks": True, "recorded steps": True, "company": True}


def test_products_that_add_otherwise_in_company_are_seen(tiny: Path, tmp_path: Path) -> None:
    assert played("eagle3", tiny, tmp_path, "by_company", "company") == {"company": False}


@pytest.mark.parametrize(
    "kind",
    [
        "eagle3_window",
        pytest.param("eagle3_of_target", marks=pytest.mark.deep),
        pytest.param("eagle3_low_rank", marks=pytest.mark.deep),
        pytest.param("eagle3_deep_window", marks=pytest.mark.deep),
        pytest.param("mtp", marks=pytest.mark.deep),
    ],
)
def test_levels_behind_a_step_have_the_bytes_of_those_that_are_asked(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    assert played(kind, tiny, tmp_path, "ascending", "behind") == {"behind": True}
