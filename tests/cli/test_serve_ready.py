"""`spectrie serve` says that it is ready once the router serves every model."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spectrie.cli.serve.readiness import wait_served


@contextmanager
def router(answers: list[tuple[int, bytes]]) -> Iterator[dict[str, str]]:
    """A server that gives each of `answers` once, then the last one again and again."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/readyz"
            status, body = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            host, port = server.server_address[:2]
            yield {"http": f"{host!s}:{port}"}
        finally:
            server.shutdown()
            thread.join()


def models(*names: str) -> bytes:
    return json.dumps({"status": "ready", "models": names}).encode()


def test_the_second_model_is_waited_for() -> None:
    answers = [(503, b""), (200, models("a")), (200, b"<html>"), (200, models("b", "a"))]
    with router(answers) as addresses:
        wait_served(addresses, ["a", "b"], timeout_s=60.0)
    assert answers == [(200, models("b", "a"))]


def test_a_model_that_never_comes_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with router([(200, models("a"))]) as addresses:
        wait_served(addresses, ["a", "late", "b"], timeout_s=0.2)
    (record,) = caplog.records
    assert record.getMessage().startswith("not served after 0.2 s: ")
    assert record.getMessage().endswith(("b, late", "a, b, late"))


def test_a_router_without_http_is_not_asked() -> None:
    wait_served({"grpc": "127.0.0.1:1"}, ["a"], timeout_s=0.0)
