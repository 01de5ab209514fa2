"""What a key allows over HTTP, and a keys file that changes while the router serves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.http.scripted_worker import MODEL
from tests.http.server import Server, serving
from tests.waiting import wait_until

PATIENCE_S = 60.0
PROMPT = {"prompt": "hello", "temperature": 0, "max_tokens": 4}


def entry(key: str, tenant: str, *fields: str) -> str:
    """The entry of a keys file for `key`."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return "\n".join(["[[keys]]", f'sha256 = "{digest}"', f'tenant = "{tenant}"', *fields, ""])


ENTRIES = {
    "free": entry("free", "ann"),
    "rare": entry("rare", "bob", "requests_per_minute = 2"),
    "meek": entry("meek", "bob", "max_priority = 0"),
    "other": entry("other", "bob", 'models = ["another"]'),
    "late": entry("late", "bob", "expires = 2020-01-31"),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A router whose keys have limits, and the file of its keys, beside its log."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys.toml"
    keys.write_text("".join(ENTRIES.values()))
    with serving(folder, "--api-keys", str(keys), log=folder / "log") as server:
        yield server, keys


def complete(server: Server, key: str, **fields: object) -> httpx.Response:
    """The answer to one request with `key`."""
    headers = {"authorization": f"Bearer {key}"}
    url = f"{server.http}/v1/completions"
    return httpx.post(url, json=PROMPT | fields, headers=headers, timeout=30)


def test_used_up_limit_is_429_with_a_time(guarded: tuple[Server, Path]) -> None:
    server, _ = guarded
    assert [complete(server, "rare").status_code for _ in range(2)] == [200, 200]
    refused = complete(server, "rare")
    error = refused.json()["error"]
    assert refused.status_code == 429
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert error["message"] == "the requests of this key are used up; allowed: 2 a minute"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert complete(server, "free").status_code == 200


def test_what_a_key_may_not_do_is_403(guarded: tuple[Server, Path]) -> None:
    server, _ = guarded
    assert complete(server, "meek", priority=0).status_code == 200
    assert complete(server, "meek", priority=1).status_code == 403
    for fields in ({}, {"model": MODEL}):
        closed = complete(server, "other", **fields)
        assert closed.status_code == 403
        assert closed.json()["error"]["message"].endswith("allowed: another")
    headers = {"authorization": "Bearer other"}
    assert httpx.get(f"{server.http}/v1/models", headers=headers, timeout=30).json()["data"] == []
    assert (
        httpx.get(f"{server.http}/v1/models/{MODEL}", headers=headers, timeout=30).status_code
        == 404
    )


def test_expired_key_is_401(guarded: tuple[Server, Path]) -> None:
    server, _ = guarded
    refused = complete(server, "late")
    assert refused.status_code == 401
    assert refused.json()["error"]["message"] == "this API key has expired"


def test_changed_file_counts_and_a_bad_one_does_not(guarded: tuple[Server, Path]) -> None:
    server, keys = guarded
    keys.write_text(keys.read_text() + entry("new", "eve"))
    wait_until(
        lambda: complete(server, "new").status_code == 200,
        PATIENCE_S,
        lambda: "the new key was not taken",
    )
    keys.write_text("[[keys]]\ntenant = 5\n")
    replaced = keys.with_name("replaced")
    replaced.write_text("latest eve\n")
    wait_until(
        lambda: "the changed API keys are not used" in keys.with_name("log").read_text(),
        PATIENCE_S,
        lambda: "the bad file was not looked at",
    )
    assert complete(server, "new").status_code == 200
    replaced.rename(keys)
    wait_until(
        lambda: complete(server, "latest").status_code == 200,
        PATIENCE_S,
        lambda: "the file was not read again",
    )
    assert complete(server, "new").status_code == 401
