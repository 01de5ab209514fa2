"""`spectrie memory` and `spectrie corpus add|remove|list --server` against a scripted server."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.cli import main
from tests.client.scripted_admin import AdminServer

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(admin_server: AdminServer, monkeypatch: pytest.MonkeyPatch) -> AdminServer:
    """The server that the environment names."""
    monkeypatch.setenv("SPECTRIE_ADMIN", admin_server.target)
    return admin_server


def test_namespaces_are_a_table_and_forgetting_one_takes_it_out(
    run: AdminServer, capsys: Captured
) -> None:
    assert main(["memory", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["ann", "default"]
    assert main(["memory", "forget", "ann"]) == 0
    assert run.namespaces == ["default"]
    assert main(["memory", "forget", "ann"]) == 1
    assert "no namespace ann" in capsys.readouterr().err


def test_worker_that_failed_is_named_after_the_others_and_makes_the_code_1(
    run: AdminServer, capsys: Captured
) -> None:
    run.failing["w2"] = "no answer in time"
    assert main(["memory", "save"]) == 1
    captured = capsys.readouterr()
    assert "/state/draft/0" in captured.out
    assert "worker w2: no answer in time" in captured.err


def test_stats_show_expected_and_actual_acceptance(run: AdminServer, capsys: Captured) -> None:
    assert main(["memory", "stats"]) == 0
    out = capsys.readouterr().out
    for text in (
        *("worker w1", "40 tokens, 8 accepted", "shared 8", "0.75 of expected", "1.25x"),
        *("share 1,200, no_room 3", "2 blocks lost"),
    ):
        assert text in out
    assert "1.25x (95 %: 1.12 to 1.38; 40 steps held out)" in out
    assert "not enough held-out steps (0 steps held out)" in out.partition("worker w2")[2]


def test_corpora_of_a_server_are_added_by_absolute_path_listed_and_removed(
    run: AdminServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.corpus").write_bytes(b"")
    server = ["--server", run.target]
    assert main(["corpus", "add", "here.corpus", "--namespace", "ann", *server]) == 0
    assert list(run.corpora) == [str(tmp_path / "here.corpus")]
    assert main(["corpus", "add", "code", *server]) == 0
    assert main(["corpus", "list", *server]) == 0
    out = capsys.readouterr().out
    assert "for ann" in out and "for everyone" in out and "5.0 MB" in out
    assert "lost" not in out
    run.corpora["code"].lost_blocks = 3
    run.corpora["code"].first_loss = "bytes 160 to 65695 of its file: cut off"
    assert main(["corpus", "list", *server]) == 0
    out = capsys.readouterr().out
    assert "3 blocks lost: bytes 160 to 65695 of its file: cut off" in out
    assert main(["corpus", "remove", "code", *server]) == 0
    assert list(run.corpora) == [str(tmp_path / "here.corpus")]


def test_command_without_a_server_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.delenv("SPECTRIE_ADMIN", raising=False)
    assert main(["memory", "list"]) == 2
    assert "give --server ADMIN or set SPECTRIE_ADMIN" in capsys.readouterr().err
