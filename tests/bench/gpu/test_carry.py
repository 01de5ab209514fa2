"""What a GPU machine lacks arrives whole, in calls that each fit; anything else is refused."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu import carry
from bench.gpu.carry import CarryError, pack, unpack
from bench.gpu.stages import STAGES

LIMIT = 4000


class Lacking:
    """Stand-ins for the core, a package and a model that does not fit one call."""

    def __init__(self, folder: Path) -> None:
        self.core = folder / "core.so"
        self.core.write_bytes(b"core" * 500)
        self.packages = {}
        for place in ("one/__init__.py", "two/deep/names.py"):
            file = folder / place.replace("/", "-")
            file.write_text(f"PLACE = {place!r}\n", encoding="utf-8")
            self.packages[place] = file
        self.model = folder / "small.gguf"
        # No multiple of the number of parts.
        self.model.write_bytes(random.Random(1).randbytes(10_001))

    def pack(self, target: Path, most_bytes: int = LIMIT) -> list[Path]:
        return pack(target, self.core, self.packages, self.model, most_bytes=most_bytes)


@pytest.fixture
def lacking(tmp_path: Path) -> Lacking:
    (tmp_path / "own").mkdir()
    return Lacking(tmp_path / "own")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_every_call_makes_a_bare_machine_ready_and_all_of_them_bring_the_model(
    lacking: Lacking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/given")
    folders = lacking.pack(tmp_path / "calls")
    assert len(folders) == len(STAGES) == carry.PARTS
    for folder in folders:
        assert sum(file.stat().st_size for file in folder.iterdir()) <= LIMIT
    for place, folder in enumerate(reversed(folders)):
        there = tmp_path / "there" / str(place) / "core.so"
        variables = unpack(folder, tmp_path / "kept", there)
        assert there.read_bytes() == lacking.core.read_bytes()
        ours, given = variables["PYTHONPATH"].split(os.pathsep)
        assert given == "/given"
        code = "import one, two.deep.names as names; print(one.PLACE, names.PLACE)"
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": ours}, capture_output=True, text=True
        )
        assert done.stdout == "one/__init__.py two/deep/names.py\n"
        assert ("VISIT_MODEL" in variables) == (place == len(folders) - 1)
    assert Path(variables["VISIT_MODEL"]).read_bytes() == lacking.model.read_bytes()
    # A call that is repeated finds all parts.
    assert "VISIT_MODEL" in unpack(folders[0], tmp_path / "kept", tmp_path / "core.so")


def test_equal_files_give_equal_bytes(lacking: Lacking, tmp_path: Path) -> None:
    lacking.pack(tmp_path / "calls")
    for file in lacking.packages.values():
        os.utime(file, (1, 1))
        file.chmod(0o600)
    lacking.packages = dict(reversed(lacking.packages.items()))
    lacking.pack(tmp_path / "again")
    assert contents(tmp_path / "calls") == contents(tmp_path / "again")


def test_more_than_a_call_carries_is_refused_and_not_written(
    lacking: Lacking, tmp_path: Path
) -> None:
    least = max(
        sum(file.stat().st_size for file in folder.iterdir())
        for folder in lacking.pack(tmp_path / "fits")
    )
    with pytest.raises(CarryError, match=r"a call would carry .* of the model"):
        lacking.pack(tmp_path / "calls", most_bytes=least - 40)
    assert not (tmp_path / "calls").exists()


def test_without_a_model_one_call_is_enough(lacking: Lacking, tmp_path: Path) -> None:
    (folder,) = pack(tmp_path / "calls", lacking.core, lacking.packages, None)
    assert set(unpack(folder, tmp_path / "kept", tmp_path / "core.so")) == {"PYTHONPATH"}


@pytest.mark.parametrize("name", ["core.xz", "packages.tar.xz", "model.part"])
def test_what_was_damaged_on_its_way_is_refused(
    lacking: Lacking, tmp_path: Path, name: str
) -> None:
    folders = lacking.pack(tmp_path / "calls")
    damaged = bytearray((folders[0] / name).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folders[0] / name).write_bytes(damaged)
    with pytest.raises(CarryError, match="is damaged"):
        for folder in folders:
            unpack(folder, tmp_path / "kept", tmp_path / "there" / "core.so")
    assert not (tmp_path / "kept" / "small.gguf").exists()


def test_the_packages_that_are_carried_are_those_that_are_installed_here() -> None:
    files = carry._installed(carry.PACKAGES)
    assert {"gguf/__init__.py", "grpc_health/__init__.py", "google/rpc/status_pb2.py"} <= set(files)
    assert not any(place.startswith(("..", "/")) for place in files)


def test_the_command_prints_what_a_shell_evaluates(
    lacking: Lacking,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carry, "ROOT", tmp_path / "root")
    core = tmp_path / "root" / carry.CORE
    core.parent.mkdir(parents=True)
    core.write_bytes(b"core")
    assert carry.main(["pack", str(tmp_path / "calls"), "--model", str(lacking.model)]) == 0
    assert capsys.readouterr().out.count(" MiB in ") == carry.PARTS
    core.unlink()
    for part in ("1", "2", "3", "4"):
        assert carry.main(["unpack", str(tmp_path / "calls" / part), str(tmp_path / "kept")]) == 0
    last = capsys.readouterr().out.splitlines()[-2:]
    assert core.read_bytes() == b"core"
    assert [line.partition("=")[0] for line in last] == ["export PYTHONPATH", "export VISIT_MODEL"]
    assert carry.main(["unpack", str(tmp_path / "none"), str(tmp_path / "kept")]) == 1
    assert "carry: " in capsys.readouterr().err
