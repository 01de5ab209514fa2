"""What a runner says about itself, its limits, and what it keeps on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from spectrie.errors import ConfigError
from spectrie.model import Runner, load_runner, machine
from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from spectrie.model.plan import PlanArrays, StepPlan, StepResult
from spectrie.model.runner import costs
from tests.tiny_model import write_tiny_model

pytestmark = pytest.mark.usefixtures("own_cache")


def test_a_runner_describes_itself(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=1, num_pages=20)
    assert runner.vocabulary_size == 200
    assert runner.eos_token_ids == [1]
    assert runner.num_pages == 20
    assert runner.page_size == 16
    assert runner.max_context == 320
    assert runner.dtype_name == "float32"
    assert runner.device_name == "cpu"
    assert runner.threads == 1
    assert runner.exact
    assert runner.model_hash in runner.numeric_fingerprint
    assert "float32" in runner.numeric_fingerprint


def test_fingerprints_tell_models_and_dtypes_apart(tiny: Path, tmp_path: Path) -> None:
    same = Path(shutil.copytree(tiny, tmp_path / "same"))
    other = Path(shutil.copytree(tiny, tmp_path / "other"))
    data = bytearray((other / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (other / "model.safetensors").write_bytes(data)

    def fingerprint(folder: Path, dtype: str) -> str:
        return load_runner(folder, dtype=dtype, threads=1, num_pages=4).numeric_fingerprint

    assert fingerprint(tiny, "float32") == fingerprint(same, "float32")
    assert fingerprint(tiny, "float32") != fingerprint(other, "float32")
    assert fingerprint(tiny, "float32") != fingerprint(tiny, "bfloat16")


def test_dtype_auto_follows_the_cpu_features(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, dtype in ((frozenset({"avx512_bf16"}), "bfloat16"), (frozenset(), "float32")):
        monkeypatch.setattr(machine, "cpu_flags", lambda flags=flags: flags)
        assert load_runner(tiny, threads=1, num_pages=4).dtype_name == dtype


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "dtype is 'int8'; allowed: auto, float32"),
        ({"dtype": "float16"}, "dtype is 'float16'; allowed on a CPU"),
        ({"device": "tpu"}, "device is 'tpu'; allowed: auto, cpu, cuda"),
        ({"threads": 0}, "threads is 0, expected at least 1"),
        ({"max_context": 9999}, "max_context is 9999; allowed for this model: 1 to 512"),
        ({"max_context": 100, "num_pages": 2}, "holds 32 tokens, expected at least .* 100"),
        ({"kv_memory_bytes": 100}, "kv_memory_bytes is 100, but one page takes"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    tiny: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_runner(tiny, **({"threads": 1, "device": "cpu"} | options))  # type: ignore[arg-type]


def test_too_many_rows_and_foreign_tokens_are_refused(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=1, num_pages=8, max_batch_rows=4)
    with pytest.raises(ValueError, match="plan has 5 rows, at most 4"):
        runner.forward(StepPlan.single([0] * 5, kv_len=0, pages=[0]))
    with pytest.raises(ValueError, match=r"row_token holds -1\.\.3; allowed: 0\.\.199"):
        runner.forward(StepPlan.single([3, -1], kv_len=0, pages=[0]))


def test_costs_rise_with_the_rows_and_are_kept(tiny: Path, own_cache: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=1, num_pages=30)
    rows, times = runner.measure_costs()
    assert rows == [1, 2, 4, 8, 12, 16, 24, 32, 48, 64]
    assert times == sorted(times) and times[0] > 0
    again = load_runner(tiny, dtype="float32", threads=1, num_pages=30)
    assert again.measure_costs()[0] == rows


def test_costs_of_a_small_cache_stay_inside_it(tiny: Path) -> None:
    runner = load_runner(tiny, dtype="float32", threads=1, num_pages=2, max_batch_rows=9)
    rows, times = runner.measure_costs()
    assert rows == [1, 2, 4, 8]
    assert len(times) == 4
    cost = runner.measure_context_cost()
    assert (cost.ms_per_key, cost.ms_per_read) == (0.0, 0.0)


def test_costs_are_those_of_tokens_unlike_each_other(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.runner.costs._COST_SECONDS", 0.0)
    loaded = load_runner(tiny, dtype="float32", threads=1, num_pages=30)
    seen: list[list[int]] = []

    class Recording:
        def forward(self, plan: PlanArrays, /) -> StepResult:
            seen.append(plan.row_token.tolist())
            return loaded.step(plan)

        def set_threads(self, threads: int, /) -> None:
            loaded.set_threads(threads)

    Runner(Recording(), loaded.info, Measurements(None), threads=1).measure_costs()
    assert max(map(len, seen)) == 64
    assert all(len(set(tokens)) == len(tokens) for tokens in seen)


def test_cached_tokens_have_a_price_that_is_kept(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def by_context(time_of: object, plans: list[StepPlan], seconds: float) -> list[float]:
        measured.append(seconds)
        return [float(plan.request_kv_len.sum()) for plan in plans]

    # Times under load may not agree, and are then measured again.
    monkeypatch.setattr(costs, "_fastest", by_context)
    monkeypatch.setattr(machine.Competition, "is_there", lambda _: False)
    folder = write_tiny_model(tmp_path / "long", max_context=1024)
    runner = load_runner(folder, dtype="float32", threads=1, num_pages=64)
    cost = runner.measure_context_cost()
    assert (cost.context_tokens, cost.tile_rows) == (256, 64)
    assert cost.ms_per_key + cost.ms_per_read == pytest.approx(1.0)
    assert len(measured) == 2
    again = load_runner(folder, dtype="float32", threads=1, num_pages=64)
    assert again.measure_context_cost() == cost
    assert len(measured) == 2


def test_the_thread_count_is_one_of_the_cores(tiny: Path) -> None:
    before = torch.get_num_threads()
    runner = load_runner(tiny, dtype="float32", num_pages=30)
    assert 1 <= runner.threads <= machine.num_cores()
    assert torch.get_num_threads() == before


def test_progress_is_told_in_lines(tiny: Path) -> None:
    lines: list[str] = []
    load_runner(tiny, dtype="float32", threads=1, num_pages=4, progress=lines.append)
    assert lines[0] == "reading weights"
    assert "packing layers 1 to 3 of 3" in lines


def test_measurements_survive_a_restart_and_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "measurements.json"
    Measurements(path).put("a", [1, 2])
    Measurements(path).put("b", "x")
    assert json.loads(path.read_text()) == {"a": [1, 2], "b": "x"}
    path.write_text("[broken")
    broken = Measurements(path)
    assert broken.get("a") is None
    broken.put("c", 3)
    assert Measurements(path).get("c") == 3


def test_measurements_without_a_writable_place_stay_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Measurements(tmp_path / "file" / "measurements.json")
    kept.put("a", 1)
    assert kept.get("a") == 1


def test_the_model_hash_covers_configuration_and_weights(tiny: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny, tmp_path / "copy"))
    nowhere = Measurements(None)
    assert model_hash(copy, nowhere) == model_hash(tiny, nowhere)
    config = copy / "config.json"
    config.write_text(config.read_text() + " ")
    assert model_hash(copy, nowhere) != model_hash(tiny, nowhere)


def test_memory_and_cores_of_this_machine_are_plausible() -> None:
    assert 1 <= machine.num_cores() <= 4096
    assert machine.available_memory_bytes() > 1 << 26
    assert machine.cpu_class().count(":") >= 3
