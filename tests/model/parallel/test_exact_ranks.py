"""Exact arithmetic on several GPUs: the bytes of one, whatever ranks share; simulated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.gpu.simulated import simulated_gpu
from spectrie.errors import ConfigError, RankLost
from spectrie.model import Runner, gpu, load_runner
from spectrie.model.parallel import ranks
from spectrie.model.plan import StepPlan
from spectrie.model.runner import self_check
from tests.cores import require_cores
from tests.model import families

pytestmark = pytest.mark.usefixtures("own_cache")

interpreted = pytest.mark.skipif(
    torch.cuda.is_available() or find_spec("triton") is None, reason="needs Triton's interpreter"
)


def said(name: str, folder: Path, module: str, *arguments: str, **sizes: int) -> Any:
    """What a process prints that runs a module on a model of one layer, with the interpreter."""
    families.save_family(name, folder / "model", **{"num_hidden_layers": 1, **sizes})
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
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@interpreted
def test_two_exchanges_of_sums_a_layer_give_the_bytes_of_one_rank(tmp_path: Path) -> None:
    found = said(
        "llama_tied_bias",
        tmp_path,
        "tests.model.parallel.emulated",
        *("2", "4", "8"),
        num_attention_heads=8,
    )
    # Two steps of one layer, and the logits of each.
    given = {"same": True, "sums": 4, "columns": 2}
    assert found == {"2": given, "4": given | {"same in other pairs": False}, "8": given}


@interpreted
@pytest.mark.parametrize("name", ["llama_tied_bias", "mixtral"])
def test_terms_that_cannot_be_shared_are_gathered_and_give_the_same_bytes(
    name: str, tmp_path: Path
) -> None:
    sizes = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72}
    found = said(name, tmp_path, "tests.model.parallel.emulated", "2", **sizes)
    # Heads are uneven, so that the output projection takes two exchanges; so do experts. Other down
    # projections share their terms. The logits take one.
    is_mixture = name == "mixtral"
    assert found == {
        "2": {"same": True, "sums": 0 if is_mixture else 2, "columns": 2 * (5 if is_mixture else 3)}
    }


@interpreted
def test_two_processes_are_exact_and_give_the_bytes_of_one(tmp_path: Path) -> None:
    require_cores(2)
    found = said("qwen3", tmp_path, "tests.model.parallel.interpreted")
    assert found == {"exact": True, "ranks": 2, "one fingerprint": True, "same": True}


def load(folder: Path, **options: Any) -> Runner:
    """Two ranks on simulated GPUs."""
    given: dict[str, Any] = {"dtype": "float32", "threads": 1, "num_pages": 30}
    return load_runner(folder, tensor_parallel=2, **(given | options))


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    require_cores(2)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setattr(ranks, "FOLLOWER", "tests.model.parallel.simulated_follower")
    with simulated_gpu():
        monkeypatch.setattr(gpu, "count", lambda: 2)
        yield


@pytest.mark.usefixtures("two_gpus")
def test_a_rank_that_is_lost_between_exchanges_of_sums_is_an_error(tiny: Path) -> None:
    lines: list[str] = []
    runner = load(tiny, rank_timeout_s=4.0, progress=lines.append)
    try:
        assert runner.exact
        assert "checking that rows do not change one another's bits" in lines
        plan = StepPlan.single([1, 2, 3], kv_len=0, pages=[0])
        runner.step(plan)
        (follower,) = followers()
        os.kill(follower, signal.SIGKILL)
        with pytest.raises(RankLost, match=r"another rank is gone.*"):
            runner.step(plan)
    finally:
        runner.close()
    assert not followers()


@pytest.mark.usefixtures("two_gpus")
def test_ranks_whose_rows_differ_are_started_again_with_fast_arithmetic(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_check, "differing_form", lambda runner, is_asked: "in a tree")
    with pytest.raises(ConfigError, match="the logits of a row in a tree have other bytes"):
        load(tiny, gpu_arithmetic="exact")
    assert not followers()
    runner = load(tiny)
    try:
        assert not runner.exact
        assert runner.why_fast is not None
        assert "in a tree" in runner.why_fast
        assert len(followers()) == 1
        runner.step(StepPlan.single([1, 2, 3], kv_len=0, pages=[0]))
    finally:
        runner.close()
    assert not followers()


def followers() -> list[int]:
    """Processes of other ranks that this one started."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            status = (folder / "status").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:  # no process, or it ended meanwhile
            continue
        if f"PPid:\t{os.getpid()}\n" in status and b"simulated_follower" in command:
            found.append(int(folder.name))
    return found
