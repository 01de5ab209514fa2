"""`spectrie abort` against a scripted server."""

from __future__ import annotations

import pytest

from spectrie.cli import main
from tests.client.scripted_admin import AdminServer

Captured = pytest.CaptureFixture[str]


def test_request_is_ended_by_id_and_tenant(
    admin_server: AdminServer, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("SPECTRIE_ADMIN", admin_server.target)
    admin_server.requests = [("ann", "job"), ("bob", "job"), ("bob", "other")]
    assert main(["abort", "job", "--tenant", "bob"]) == 0
    assert capsys.readouterr().err == "job ended\n"
    assert admin_server.requests == [("ann", "job"), ("bob", "other")]
    assert main(["abort", "job", "--tenant", "bob"]) == 1
    assert "no request job" in capsys.readouterr().err
    assert main(["abort", "job"]) == 0
    assert admin_server.requests == [("bob", "other")]
