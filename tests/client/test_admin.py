"""The operators' client: typed answers, errors, and workers that fail beside others."""

from __future__ import annotations

import pytest

from spectrie import AdminClient
from spectrie.client import CalibrationBin
from spectrie.errors import AlreadyExists, ConnectFailed, NotFound, PartialFailure
from tests.client.scripted_admin import AdminServer


def test_corpora_come_and_go_with_their_readers(admin_server: AdminServer) -> None:
    with AdminClient(admin_server.target) as admin:
        assert admin.add_corpus("text").readers is None
        assert admin.add_corpus("code", readers=["ann"]).readers == ("ann",)
        assert [corpus.name for corpus in admin.list_corpora()] == ["text", "code"]
        with pytest.raises(AlreadyExists, match="corpus code is loaded"):
            admin.add_corpus("code")
        assert admin.remove_corpus("code") == 2
        with pytest.raises(NotFound, match="no corpus code"):
            admin.remove_corpus("code")


def test_namespaces_are_listed_and_forgotten(admin_server: AdminServer) -> None:
    with AdminClient(admin_server.target) as admin:
        assert admin.forget_namespace("ann") == 2
        assert [(one.name, one.num_tokens) for one in admin.list_namespaces()] == [("default", 7)]


def test_workers_that_failed_are_named_beside_the_result(admin_server: AdminServer) -> None:
    admin_server.failing["w2"] = "no answer in time"
    with AdminClient(admin_server.target) as admin:
        with pytest.raises(PartialFailure, match="w2: no answer in time") as caught:
            admin.save_snapshot()
        (failure,) = caught.value.failures
        assert (failure.worker, failure.code) == ("w2", 4)
        assert isinstance(caught.value.result, list)
        assert caught.value.result[0].folder == "/state/draft/0"


def test_stats_are_told_by_worker_and_absent_where_not_measured(admin_server: AdminServer) -> None:
    with AdminClient(admin_server.target) as admin:
        busy, idle = admin.stats()
    assert busy.accepted_by_source == {"shared": 8}
    assert busy.calibration == (CalibrationBin(trials=20, expected=4.0, accepted=3),)
    assert busy.dropped_by_reason == {"share": 1200, "no_room": 3}
    assert (busy.lost_corpus_blocks, idle.lost_corpus_blocks) == (2, 0)
    assert (busy.net_gain, busy.net_gain_low, busy.net_gain_high) == (1.25, 1.125, 1.375)
    assert (idle.net_gain, idle.net_gain_low, idle.net_gain_high) == (None, None, None)
    assert (busy.holdout_steps, idle.holdout_steps) == (40, 0)


def test_workers_are_listed_and_drained_within_a_grace(admin_server: AdminServer) -> None:
    with AdminClient(admin_server.target) as admin:
        first, second = admin.loads()
        assert (first.worker, first.model, first.choices, first.is_draining) == (
            *("w1", "tiny", 3, False),
        )
        assert second.worker == "w2"
        report = admin.drain("w1", grace_s=1.5)
        assert (report.worker, report.handed_over) == ("w1", 2)
        admin.drain("w2")
        with pytest.raises(NotFound, match="no worker w9"):
            admin.drain("w9")
    graces = [one.grace_ms if one.HasField("grace_ms") else None for one in admin_server.drained]
    assert graces == [1500, None, None]


def test_token_is_sent_and_an_api_key_is_not(
    admin_server: AdminServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_API_KEY", "key-of-ann")
    with AdminClient(admin_server.target) as admin:
        admin.list_namespaces()
    assert "authorization" not in admin_server.metadata[-1]
    with AdminClient(admin_server.target, token="secret") as admin:
        admin.list_namespaces()
    assert admin_server.metadata[-1]["authorization"] == "Bearer secret"


def test_absent_server_is_named_at_once() -> None:
    with (
        AdminClient("127.0.0.1:1", connect_timeout=1) as admin,
        pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:1"),
    ):
        admin.list_corpora()
