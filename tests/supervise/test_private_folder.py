"""Sockets of one run, with temporary files on short and long paths."""

from __future__ import annotations

import socket
import stat
import tempfile
from pathlib import Path

import pytest

from spectrie.supervise.private_folder import private_folder


def test_it_is_where_temporary_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        with private_folder() as folder:
            assert Path(folder).parent == Path(short)
            assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        assert not Path(folder).exists()


@pytest.mark.parametrize("length", range(60, 110))
def test_a_socket_can_be_opened_in_it_however_long_the_path_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    long = tmp_path / "f"
    while len(str(long)) < length - 9:
        long /= "folders"
    long = long.with_name("x" * max(1, length - len(str(long.parent)) - 1))
    long.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with private_folder() as folder, socket.socket(socket.AF_UNIX) as opened:
        opened.bind(f"{folder}/worker.sock")
        assert len(f"{folder}/worker.sock") <= 103
