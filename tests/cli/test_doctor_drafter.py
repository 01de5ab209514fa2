"""What `spectrie doctor --drafter` says of a head."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectrie.cli import main

pytest.importorskip("torch")

from spectrie.model.files.fingerprint import model_hash
from spectrie.model.files.measurements import Measurements
from tests.model.drafters.heads import head_tensors, write_head
from tests.model.families import save_family


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    save_family("llama", tmp_path / "tiny")
    return tmp_path / "tiny"


def line(capsys: pytest.CaptureFixture[str], model: str, *options: str) -> str:
    main(["doctor", model, *options])
    printed = capsys.readouterr().out.splitlines()
    (found,) = [one for one in printed if one[6:17].strip() == "drafter"]
    return f"{found[:4]} {found[18:]}"


def test_a_head_is_said_to_fit_with_what_it_costs(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = write_head(tmp_path / "my-head", head_tensors())
    found = line(capsys, str(tiny), "--drafter", str(head))
    assert found.startswith("ok   my-head, eagle3 ")
    assert "names 60 tokens, up to 8 levels: " in found
    assert " ms for the first of a row, " in found and " ms of upkeep a step" in found


def test_a_head_of_another_model_is_noted(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = json.dumps({"model_hash": "00", "namespaces": ["acme"]})
    head = write_head(tmp_path / "my-head", head_tensors(), origin=origin)
    found = line(capsys, str(tiny), "--drafter", str(head))
    assert found.startswith("note ")
    assert "trained for another model" in found and "only for acme" in found
    assert found.endswith("tokens stay right, but few drafts may be accepted")


def test_a_head_that_does_not_fit_fails(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = write_head(tmp_path / "my-head", head_tensors(), vocab_size=201)
    found = line(capsys, str(tiny), "--drafter", str(head))
    assert found.startswith("FAIL") and "vocab_size is 201, expected 200, the target's" in found


def test_a_head_that_ships_is_found_and_measured_when_asked_for(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spectrie.model.drafters.shipped.HEADS", tmp_path / "heads")
    values = {"model_hash": model_hash(tiny, Measurements(None)), "namespaces": None}
    origin = json.dumps(values | {"held_out_top_1": [0.5, 0.4]})
    write_head(tmp_path / "heads/tiny-eagle3", head_tensors(), origin=origin)
    found = line(capsys, str(tiny))
    assert found == "ok   tiny-eagle3, by --drafter auto, which measures it here too"
    for name in ("auto", "tiny-eagle3"):
        found = line(capsys, str(tiny), "--drafter", name)
        assert found.startswith("ok   tiny-eagle3, eagle3 ")
        assert "trained for this model" in found and " ms of upkeep a step" in found
        assert "; expected here for one request: " in found and "right 50 / 40 % of" in found


def test_without_a_head_or_a_model_nothing_is_loaded(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "the model has no layer for multi-token prediction, and no head ships for its weights"
    assert line(capsys, str(tiny)) == f"ok   none: {why}; --drafter PATH checks one"
    assert line(capsys, str(tiny), "--drafter", "auto") == f"note none: {why}"
    none = "ok   none asked for: --drafter PATH checks one"
    assert line(capsys, str(tiny), "--drafter", "off") == none
    assert line(capsys, "smollm2-135m") == none
    found = line(capsys, "smollm2-135m", "--drafter", str(tmp_path / "nothing"))
    assert found.startswith("note") and "checked with a model that is stored" in found
