"""What Triton launches in a recorded step of exact arithmetic, counted by its interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from spectrie_kernels import SumOrder
from tests.model import families

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or find_spec("triton") is None, reason="needs Triton's interpreter"
)

LAYERS = 2
WIDE = 272


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    # As in every model of use, queries and gate are added in several segments.
    folder = tmp_path_factory.mktemp("launches")
    return counted("qwen3", folder, hidden_size=WIDE)


def counted(name: str, folder: Path, **sizes: int) -> dict[str, Counter[str]]:
    """Launches by kernel and operators of torch beside them, in a step of five rows and their tops."""
    with pytest.MonkeyPatch.context() as patch:
        for size, value in {"num_hidden_layers": LAYERS, **sizes}.items():
            patch.setitem(families._SIZES, size, value)
        families.save_family(name, folder / "model")
    done = subprocess.run(
        [sys.executable, "-m", "tests.model.launch.interpreted", folder / "model"],
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
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return {name: Counter(of) for name, of in found.items()}


def test_torch_only_copies_the_packed_step_in_and_the_results_out(
    counts: dict[str, Counter[str]],
) -> None:
    assert counts["beside"] == {"copy_": 2}


def test_a_layer_is_ten_launches(counts: dict[str, Counter[str]]) -> None:
    for out in (10 * 20, 2 * 80):
        assert SumOrder.of(out, WIDE).segments > 1
    launched = counts["launched"]
    of_layers = {
        "_add_norm_kernel": 2 * LAYERS + 1,
        # With the head.
        "_linear_kernel": 4 * LAYERS + 1,
        "_rotate_write_kernel": LAYERS,
        "part_kernel": LAYERS,
        "combine_kernel": LAYERS,
        "_gate_kernel": LAYERS,
    }
    assert {name: launched[name] for name in of_layers} == of_layers
    # Two fewer than all of them: the last norm and the head.
    assert sum(of_layers.values()) - 2 == 10 * LAYERS


def test_around_the_layers_there_are_fourteen_launches(counts: dict[str, Counter[str]]) -> None:
    launched = counts["launched"]
    around = {
        "_take_drawn_kernel": 1,
        # For the layers and for the head.
        "_unpack_kernel": 2,
        "_move_slots_kernel": 1,
        "_compact_slots_kernel": 1,
        # Of the head: this vocabulary is so small that it has several segments too.
        "_add_kernel": 1,
        # The embedding, and the rows for the head.
        "_gather_rows_kernel": 2,
        "_chunk_argmax_kernel": 1,
        "_row_argmax_kernel": 1,
        "_chunk_top_k_kernel": 1,
        "_row_top_k_kernel": 1,
    }
    assert {name: launched[name] for name in around} == around
    # The last norm and the head's product stand with the layers' kernels.
    assert launched.total() == 10 * LAYERS + 2 + sum(around.values())


def test_a_layer_of_experts_is_fourteen_launches_whatever_rows_choose(tmp_path: Path) -> None:
    counts = counted("mixtral", tmp_path)
    assert counts["beside"] == {"copy_": 2}
    launched = counts["launched"]
    of_layers = {
        "_add_norm_kernel": 2 * LAYERS + 1,
        # With the head: queries, output and scores.
        "_linear_kernel": 3 * LAYERS + 1,
        "_rotate_write_kernel": LAYERS,
        "part_kernel": LAYERS,
        "combine_kernel": LAYERS,
        "_choose_kernel": LAYERS,
        "_group_kernel": LAYERS,
        "_expert_linear_kernel": 2 * LAYERS,
        "_gate_kernel": LAYERS,
        "_add_experts_kernel": LAYERS,
    }
    assert {name: launched[name] for name in of_layers} == of_layers
    assert sum(of_layers.values()) - 2 == 14 * LAYERS
