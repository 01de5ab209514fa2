"""Heads that ship: `auto` finds them by the weights they are for, and none keeps a model from being served."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from spectrie.errors import ConfigError, ModelError
from spectrie.llm import LLM
from spectrie.model import load_runner
from spectrie.model.drafters import shipped_heads
from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from spectrie.model.runner.drafter_loading import chosen_drafters
from spectrie.model.runner.runner import Runner
from spectrie.model.sources.catalog import CATALOG
from tests.model.drafters.heads import write_tiny_head
from tests.model.drafters.mtp_layers import save_model
from tests.tiny_model import write_tiny_model

pytestmark = pytest.mark.usefixtures("own_cache")

NAME = "tiny-eagle3"
NOTHING = "the model has no layer for multi-token prediction, and no head ships for its weights"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny")


@pytest.fixture
def heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of heads in place of the package's own, empty."""
    folder = tmp_path / "heads"
    folder.mkdir()
    monkeypatch.setattr("spectrie.model.drafters.shipped.HEADS", folder)
    return folder


@pytest.fixture
def head(heads: Path, model: Path) -> Path:
    """One that ships for `model`."""
    return ship(heads, hash_of(model))


def hash_of(model: Path) -> str:
    return model_hash(model, Measurements(None))


def ship(heads: Path, digest: str, name: str = NAME) -> Path:
    folder = write_tiny_head(heads / name)
    origin = json.dumps({"model_hash": digest, "namespaces": None, "licence": "Apache-2.0"})
    path = folder / "model.safetensors"
    save_file(load_file(path), path, metadata={"format": "pt", "spectrie": origin})
    return folder


def load(model: Path, drafter: str = "auto", **options: Any) -> Runner:
    values: dict[str, Any] = {"num_pages": 8, "threads": 1, "drafter": drafter}
    return load_runner(model, **(values | options))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_auto_takes_the_head_for_these_weights_in_either_number_format(
    model: Path, head: Path, dtype: str
) -> None:
    runner = load(model, dtype=dtype)
    assert runner.drafter is not None
    assert (runner.drafter.name, runner.drafter.is_for_model) == (NAME, True)
    assert runner.drafter.line.startswith(f"{NAME}, eagle3 ")
    assert runner.why_no_drafter is None


def test_a_name_says_nothing_about_weights(model: Path, head: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(model, moved)
    assert load(moved).drafter is not None
    fine_tuned = write_tiny_model(tmp_path / "tuned/tiny", seed=2)
    runner = load(fine_tuned)
    assert (runner.drafter, runner.why_no_drafter) == (None, NOTHING)


def test_a_copy_of_other_bytes_does_not_take_the_head(
    model: Path, head: Path, tmp_path: Path
) -> None:
    path = model / "model.safetensors"
    copy = {name: tensor.bfloat16() for name, tensor in load_file(path).items()}
    save_file(copy, path)
    assert load(model).drafter is None


def test_a_model_has_its_own_layer_before_a_head(heads: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    save_model(own, "mimo")
    ship(heads, hash_of(own))
    runner = load(own)
    assert runner.drafter is not None and runner.drafter.kind == "mtp"


@pytest.mark.parametrize("damage", ["cut", "origin", "config", "tensor"])
def test_a_damaged_head_is_left_out_by_auto_and_refused_by_name(
    model: Path, head: Path, damage: str
) -> None:
    path = head / "model.safetensors"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    elif damage == "origin":
        save_file(load_file(path), path, metadata={"format": "pt", "spectrie": "{"})
    elif damage == "config":
        (head / "config.json").unlink()
    else:
        origin = json.dumps({"model_hash": hash_of(model), "namespaces": None})
        tensors = load_file(path)
        del tensors["fc.weight"]
        save_file(tensors, path, metadata={"format": "pt", "spectrie": origin})
    runner = load(model)
    assert runner.drafter is None
    assert str(head) in str(runner.why_no_drafter)
    with pytest.raises(ModelError, match=str(head)):
        load(model, NAME)


def test_a_damaged_head_of_another_model_does_not_hide_this_ones(
    model: Path, heads: Path, head: Path
) -> None:
    (heads / "another").mkdir()
    runner = load(model)
    assert runner.drafter is not None and runner.drafter.name == NAME


def test_a_head_is_taken_by_its_name(model: Path, head: Path) -> None:
    runner = load(model, NAME)
    assert runner.drafter is not None and runner.drafter.name == NAME


def test_the_users_own_folder_comes_before_a_name(
    model: Path, head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_head(tmp_path / NAME)
    runner = load(model, NAME)
    assert runner.drafter is not None and runner.drafter.origin is None


def test_an_unknown_name_is_refused_with_what_ships(model: Path, heads: Path) -> None:
    with pytest.raises(ModelError, match=r"the drafter big-eagle3: .*; heads that ship: none"):
        load(model, "big-eagle3")
    ship(heads, "00")
    ship(heads, "01", "wide-eagle3")
    with pytest.raises(ModelError, match=r"heads that ship: tiny-eagle3, wide-eagle3$"):
        load(model, "big-eagle3")


@pytest.mark.parametrize(
    ("device", "ranks", "where"),
    [
        ("cuda", 1, "runs on a GPU without the compiler of its kernels, Triton"),
        ("cuda", 2, "runs on 2 GPUs"),
    ],
)
def test_where_no_drafter_runs_auto_says_so_and_a_name_is_refused(
    model: Path,
    head: Path,
    device: str,
    ranks: int,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spectrie.model.gpu.compiler", lambda: None)
    (choice,) = chosen_drafters(["auto"], model, device, ranks, Measurements(None))
    assert choice.folder is None
    assert f"the head {NAME} that ships for it runs on a CPU or on one GPU" in str(choice.why_none)
    assert str(choice.why_none).endswith(where)
    with pytest.raises(ConfigError, match=f"drafter is '{NAME}', but drafters run on a CPU or"):
        chosen_drafters([NAME], model, device, ranks, Measurements(None))


def test_auto_takes_the_head_on_several_ranks_too(model: Path, head: Path) -> None:
    runner = load(model, tensor_parallel=2, device="cpu")
    try:
        assert runner.drafter is not None and runner.drafter.name == NAME
    finally:
        runner.close()


def test_a_head_leaves_a_small_cache_to_the_model(model: Path, head: Path) -> None:
    alone = load(model, "off", num_pages=None, kv_memory_bytes=1 << 20, dtype="float32")
    options: dict[str, Any] = {
        "num_pages": None,
        "dtype": "float32",
        "kv_memory_bytes": alone.info.kv_bytes // alone.num_pages * 4,
        "max_context": 64,
    }
    assert load(model, "off", **options).max_context == 64
    runner = load(model, **options)
    assert (runner.max_context, runner.drafter) == (64, None)
    assert "expected at least max_context, 64" in str(runner.why_no_drafter)
    with pytest.raises(ConfigError, match="expected at least max_context, 64"):
        load(model, NAME, **options)


def test_more_requests_than_a_head_has_room_for_run_without_it(
    model: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.drafters.beside.CpuDrafts.seats", 2)
    options: dict[str, Any] = {"threads": 1, "num_pages": 16, "max_running": 3}
    with LLM(model, drafter="auto", **options) as llm:
        assert llm._host.runner.drafter is None
        assert len(llm.generate("def", max_tokens=3, ignore_eos=True).token_ids) == 3
    with pytest.raises(ConfigError, match="max_running is 3; allowed with a drafter: up to 2"):
        LLM(model, drafter=NAME, **options)


def test_an_llm_says_what_it_took_or_why_none(
    model: Path, head: Path, heads: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spectrie.worker")
    with LLM(model, drafter="auto", threads=1, num_pages=16) as llm:
        native = llm._host.runner.native
        assert native is not None and native.drafts
    assert any(line.startswith(f"drafter {NAME}: ") for line in caplog.messages)
    caplog.clear()
    shutil.rmtree(heads / NAME)
    with LLM(model, drafter="auto", threads=1, num_pages=16):
        pass
    assert [line for line in caplog.messages if "drafter" in line] == [f"no drafter: {NOTHING}"]


def test_auto_loads_nothing_where_nothing_is_drafted(model: Path, head: Path) -> None:
    with LLM(model, drafter="auto", speculation="off", threads=1, num_pages=16) as llm:
        native = llm._host.runner.native
        assert native is not None and not native.drafts


def test_no_head_of_the_package_has_the_name_of_something_else() -> None:
    assert not {"off", "auto", "mtp", *CATALOG} & set(shipped_heads())
