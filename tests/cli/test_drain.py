"""`spectrie drain` against a scripted server."""

from __future__ import annotations

import pytest

from spectrie.cli import main
from spectrie.cli.operators import drain
from tests.client.scripted_admin import AdminServer

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(admin_server: AdminServer, monkeypatch: pytest.MonkeyPatch) -> AdminServer:
    """The server that the environment names."""
    monkeypatch.setenv("SPECTRIE_ADMIN", admin_server.target)
    monkeypatch.setattr(drain, "POLL_S", 0.01)
    return admin_server


def test_without_a_name_the_workers_are_listed(run: AdminServer, capsys: Captured) -> None:
    assert main(["drain"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:4] == ["w1", "process", "7", "tiny"]
    assert "3 of 64 running" in first and "1 waiting" in first and first.endswith("ready")
    assert second.startswith("w2")
    assert run.drained == []


def test_one_worker_is_drained_within_the_grace(run: AdminServer, capsys: Captured) -> None:
    assert main(["drain", "w2", "--grace", "500ms"]) == 0
    assert [(one.worker, one.grace_ms) for one in run.drained] == [("w2", 500)]
    assert capsys.readouterr().err == "w2 drained, 2 completions handed over\n"
    assert main(["drain", "w2"]) == 1
    assert run.drained[-1].grace_ms == 10_000
    assert "no worker w2" in capsys.readouterr().err


def test_all_are_drained_in_turn_each_once_a_successor_is_there(run: AdminServer) -> None:
    assert main(["drain", "--all"]) == 0
    assert [one.worker for one in run.drained] == ["w1", "w2"]
    assert run.successors == []
    assert run.workers == ["w3", "w4"]


def test_without_a_successor_the_others_are_left_alone(run: AdminServer, capsys: Captured) -> None:
    run.successors.clear()
    assert main(["drain", "--all", "--successor-timeout", "50ms"]) == 1
    assert [one.worker for one in run.drained] == ["w1"]
    assert "no worker came in the place of w1 within 0.05 s" in capsys.readouterr().err


def test_a_name_and_all_exclude_each_other(run: AdminServer, capsys: Captured) -> None:
    assert main(["drain", "w1", "--all"]) == 2
    assert "WORKER or --all" in capsys.readouterr().err
    assert run.drained == []
