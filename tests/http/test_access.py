"""Keys, probes and browsers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import httpx
import pytest

from tests.http.server import Server, serving

OPEN_PATHS = ["/healthz", "/health", "/readyz"]
CLOSED = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/scripted"),
    ("GET", "/metrics"),
    ("GET", "/version"),
    ("GET", "/"),
    ("GET", "/admin"),
    ("GET", "/healthz/"),
    ("GET", "/v1/../healthz"),
]
GOOD = {"authorization": "Bearer sesame"}
PROMPT = {"prompt": "hello", "temperature": 0}


@pytest.fixture(scope="module")
def guarded(guarded_server: Server) -> Iterator[httpx.Client]:
    """A client of `guarded_server`."""
    with httpx.Client(base_url=guarded_server.http, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def metrics_url(guarded_server: Server) -> str:
    """Where `guarded_server` shows its metrics."""
    return f"http://{guarded_server.metrics}/metrics"


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A router that asks for keys and lets one web origin in."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys"
    keys.write_text("sesame team-a\n")
    options = ["--cors-origin", "https://app.example", "--metrics-listen", "127.0.0.1:0"]
    with serving(folder, "--api-keys", str(keys), *options) as server:
        yield server


@pytest.mark.parametrize(("method", "path"), CLOSED)
@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic sesame"}],
    ids=["none", "wrong", "basic"],
)
def test_every_path_but_the_probes_needs_a_key(
    guarded: httpx.Client, method: str, path: str, headers: dict[str, str]
) -> None:
    # This client leaves dots in a path alone.
    connection = HTTPConnection(guarded.base_url.host, guarded.base_url.port, timeout=30)
    with closing(connection):
        connection.request(method, path, headers=headers)
        assert connection.getresponse().status == 401


def test_missing_key_is_told_in_openai_shape(guarded: httpx.Client) -> None:
    response = guarded.get("/v1/models")
    assert response.headers["www-authenticate"] == "Bearer"
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    assert error["message"] == "no API key: send the header authorization: Bearer KEY"


def test_key_opens(guarded: httpx.Client) -> None:
    assert guarded.get("/v1/models", headers=GOOD).json()["data"][0]["id"] == "scripted"
    answer = guarded.post("/v1/completions", json=PROMPT, headers=GOOD)
    assert answer.status_code == 200


@pytest.mark.parametrize("path", OPEN_PATHS)
def test_probes_answer_without_a_key(guarded: httpx.Client, path: str) -> None:
    assert guarded.get(path).status_code == 200


def test_probes_say_what_they_know(guarded: httpx.Client) -> None:
    assert guarded.get("/readyz").json() == {"status": "ready", "models": ["scripted"]}
    assert guarded.get("/version", headers=GOOD).json()["version"]


def test_metrics_of_all_tenants_are_closed_to_the_key_of_one(guarded: httpx.Client) -> None:
    closed = guarded.get("/metrics", headers=GOOD)
    assert closed.status_code == 403
    assert "--metrics-listen" in closed.json()["error"]["message"]


def test_metrics_are_open_on_an_address_of_their_own(metrics_url: str) -> None:
    metrics = httpx.get(metrics_url, timeout=30)
    assert metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert metrics.text.endswith("# EOF\n")


def test_answers_are_counted_by_route_and_status(guarded: httpx.Client, metrics_url: str) -> None:
    guarded.post("/v1/completions", json=PROMPT, headers=GOOD)
    guarded.post("/v1/completions", json={}, headers=GOOD)
    guarded.get("/made/up/by/a/stranger")
    lines = httpx.get(metrics_url, timeout=30).text.splitlines()
    counts = [line for line in lines if line.startswith("spectrie_requests_total{")]
    for route, code in [("/v1/completions", 200), ("/v1/completions", 400), ("other", 401)]:
        assert any(f'route="{route}",code="{code}"' in line for line in counts), counts
    assert not any("stranger" in line for line in counts)


def test_browsers_of_the_given_origin_may_call(guarded: httpx.Client) -> None:
    preflight = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
    }
    path = "/v1/chat/completions"
    good = guarded.options(path, headers=preflight | {"origin": "https://app.example"})
    assert good.status_code == 200
    assert good.headers["access-control-allow-origin"] == "https://app.example"
    assert "x-stainless-os" in good.headers["access-control-allow-headers"]
    bad = guarded.options(path, headers=preflight | {"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in bad.headers
