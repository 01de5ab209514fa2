"""The exact decoder of a GPU under Triton's interpreter: a row has the same bytes in every step.

The check at the start compares them: rows alone, in company, in a tree and in prompts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.model import families

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or find_spec("triton") is None,
    reason="needs Triton's interpreter, whose product is replaced",
)


def started(name: str, folder: Path, order: str) -> str:
    """What came of the start of a model whose products add in this order."""
    save(name, folder)
    return said(folder, "tests.model.decoder.interpreted", order)


def save(name: str, folder: Path, **sizes: int) -> None:
    """Writes a model of one layer."""
    with pytest.MonkeyPatch.context() as patch:
        for size, value in {"num_hidden_layers": 1, **sizes}.items():
            patch.setitem(families._SIZES, size, value)
        families.save_family(name, folder / "model")


def said(folder: Path, module: str, *arguments: str) -> str:
    """What a process prints that runs a module on the model, with the interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", module, folder / "model", *arguments],
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
    return done.stdout


# With experts; with norms of heads, and with biases of every product, which the sums below have too.
@pytest.mark.parametrize(
    "name",
    [
        "mixtral",
        pytest.param("qwen3", marks=pytest.mark.deep),
        pytest.param("llama_tied_bias", marks=pytest.mark.deep),
    ],
)
def test_a_row_has_the_same_bytes_in_every_step(name: str, tmp_path: Path) -> None:
    assert started(name, tmp_path, "ascending") == "exact\n"


def test_products_that_add_otherwise_in_company_start_no_exact_model(tmp_path: Path) -> None:
    said = started("mixtral", tmp_path, "by_company")
    assert "have other bytes than those of the row alone" in said
    named = ("router of 5 x 48", "experts' gate_up of 160 x 48", "experts' down of 48 x 80")
    assert all(product in said for product in named)


def test_sums_that_a_reader_adds_give_the_bytes_of_finished_products(tmp_path: Path) -> None:
    # Biases, and three segments: of two the order does not matter.
    save("llama_tied_bias", tmp_path, hidden_size=528)
    found = json.loads(said(tmp_path, "tests.model.decoder.left_sums"))
    # Queries and gate.
    assert found == {"left": [3, 3], "same": True, "same downwards": False}
