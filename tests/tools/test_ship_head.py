"""A head ships by one command, with a NOTICE that is what its files say."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.ship_head import HEADS, ShippingError, check, check_all, main, notice, ship

ROOT = Path(__file__).resolve().parents[2]
LOG = "0 samples dropped, 9 kept: no 13 tokens in a row are shared with 5 texts\n"
ORIGIN: dict[str, Any] = {
    "kind": "eagle3",
    "model_hash": "0123456789abcdef",
    "namespaces": None,
    "licence": "Apache-2.0",
    "commit": "c0ffee",
    "version": "0.1.0",
    "answer_tokens": 12345,
    "steps": 99,
    "samples_sha256": "aa" * 32,
    "held_out_top_1": [0.5, 0.4, 0.3],
    "coverage": 0.98,
    "data": [{"name": "built-in prompts", "sha256": "bb" * 32}],
}


def trained(folder: Path, log: str = LOG, weights_bytes: int = 64, **changes: Any) -> Path:
    """What a training leaves behind: a head, and a log in the folder of its work."""
    head = folder / "tiny"
    work = folder / "tiny.work"
    for made in (head, work):
        made.mkdir(parents=True, exist_ok=True)
    origin = json.dumps(ORIGIN | changes)
    header = json.dumps({"__metadata__": {"format": "pt", "spectrie": origin}}).encode()
    data = len(header).to_bytes(8, "little") + header + b"\0" * weights_bytes
    (head / "model.safetensors").write_bytes(data)
    (head / "config.json").write_text("{}")
    (work / "train.log").write_text(log)
    return head


def test_heads_of_the_package_are_as_they_were_shipped() -> None:
    assert check_all(HEADS) == sorted(path.name for path in HEADS.iterdir() if path.is_dir())


def test_one_command_ships_what_a_training_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = tmp_path / "heads"
    monkeypatch.setattr("tools.ship_head.HEADS", heads)
    head = trained(tmp_path)
    assert main([str(head)]) == 0
    folder = heads / "tiny-eagle3"
    assert capsys.readouterr().out.strip() == str(folder)
    for name in ("config.json", "model.safetensors"):
        assert (folder / name).read_bytes() == (head / name).read_bytes()
    text = (folder / "NOTICE").read_text()
    digest = hashlib.sha256((head / "model.safetensors").read_bytes()).hexdigest()
    for said in (f"{digest}  model.safetensors", "Apache-2.0", "commit c0ffee", "make head"):
        assert said in text
    assert (folder / "train.log").read_text() == LOG
    assert main([]) == 0
    assert capsys.readouterr().out.strip() == "heads that ship: tiny-eagle3"


def test_logs_of_a_training_that_was_stopped_are_joined(tmp_path: Path) -> None:
    (tmp_path / "first.log").write_text("first\n")
    head = trained(tmp_path)
    logs = [tmp_path / "first.log", tmp_path / "tiny.work/train.log"]
    folder = ship(head, logs, tmp_path / "heads", name="small-eagle3")
    assert folder.name == "small-eagle3"
    assert (folder / "train.log").read_text() == f"first\n{LOG}"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "train.log", "NOTICE"])
def test_a_byte_more_in_any_file_is_found(
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tools.ship_head.HEADS", tmp_path / "heads")
    assert main([str(trained(tmp_path))]) == 0
    path = tmp_path / "heads/tiny-eagle3" / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert main([]) == 1
    assert "says other things than the files beside it" in capsys.readouterr().err


def test_files_that_are_missing_or_too_many_are_found(tmp_path: Path) -> None:
    logs = [trained(tmp_path) / "../tiny.work/train.log"]
    folder = ship(tmp_path / "tiny", logs, tmp_path / "heads")
    (folder / "optimizer.pt").write_bytes(b"")
    with pytest.raises(ShippingError, match=r"optimizer\.pt"):
        check(folder)
    (folder / "optimizer.pt").unlink()
    check(folder)
    (folder / "train.log").unlink()
    with pytest.raises(ShippingError, match="expected"):
        check(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licence": "unknown"}, "the licence of its text is unknown"),
        ({"namespaces": ["acme"]}, "it learned text of a tenant"),
        ({"commit": None}, "its origin lacks commit"),
        ({"data": []}, "its origin lacks data"),
        ({"log": "trained\n"}, "does not say that its text was compared"),
        ({"log": LOG * 1000}, "train.log has 73,000 bytes, allowed: 65,536"),
        ({"weights_bytes": 12_000_000}, "bytes, allowed: 12,000,000"),
    ],
)
def test_what_must_not_ship_is_refused_and_nothing_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    head = trained(tmp_path, **changes)
    with pytest.raises(ShippingError, match=message):
        ship(head, [tmp_path / "tiny.work/train.log"], tmp_path / "heads")
    assert not (tmp_path / "heads").exists()


def test_a_name_ends_with_the_kind_of_head() -> None:
    with pytest.raises(ShippingError, match="names no origin"):
        notice("a-eagle3", {"model.safetensors": b"damaged", "config.json": b"", "train.log": b""})
    header = json.dumps({"__metadata__": {"spectrie": json.dumps(ORIGIN)}}).encode()
    weights = len(header).to_bytes(8, "little") + header
    files = {"model.safetensors": weights, "config.json": b"{}", "train.log": LOG.encode()}
    with pytest.raises(ShippingError, match="its name does not end with its kind"):
        notice("smollm2-135m", files)


def test_the_tool_needs_nothing_but_python(tmp_path: Path) -> None:
    head = trained(tmp_path, licence="unknown")
    done = subprocess.run(
        [sys.executable, "-S", str(ROOT / "tools/ship_head.py"), str(head)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == "ship_head: tiny-eagle3 cannot ship: the licence of its text is unknown\n"
