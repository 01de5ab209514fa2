"""Who asks and calls a pod: probes, streams, and what is made of how they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest

from tests.waiting import wait_until
from tools.kube.node.acted import Acted
from tools.kube.node.load import Load, Outcome, Way
from tools.kube.node.pods import Probe
from tools.kube.node.probes import ask

DONE = b'data: {"choices": []}\n\ndata: [DONE]\n\n'
FAILED = b'data: {"error": {"message": "lost"}}\n\ndata: [DONE]\n\n'


class Handler(BaseHTTPRequestHandler):
    """Answers GET with the status that the path names, and POST with what its server has."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, content, is_cut = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) + is_cut))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True


@contextmanager
def serving(answer: tuple[int, bytes, bool] = (200, DONE, False)) -> Iterator[int]:
    """A server of this answer: its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answer = answer  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "is_well"), [(200, True), (302, True), (404, False), (503, False)]
)
def test_an_http_probe_goes_by_the_status(status: int, is_well: bool) -> None:
    with serving() as port:
        probe = Probe("http", port, f"/{status}", timeout_s=60)
        assert ask("127.0.0.1", probe) is is_well
    assert not ask("127.0.0.1", probe)


@pytest.mark.parametrize(("status", "is_well"), [(1, True), (2, False)])
def test_a_grpc_probe_goes_by_the_status(status: int, is_well: bool) -> None:
    def answer(_request: bytes, _context: object) -> bytes:
        return bytes([8, status])

    check: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)
    handler = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    probe = Probe("grpc", port, timeout_s=60)
    assert ask("127.0.0.1", probe) is is_well
    server.stop(None).wait()
    assert not ask("127.0.0.1", Probe("grpc", port, timeout_s=1))


def wait(load: Load, what: Callable[[], bool]) -> None:
    """Returns once something is so."""
    wait_until(what, 60.0, lambda: str(load.outcome()))


def outcome_of(answer: tuple[int, bytes, bool], path: str = "/v1/chat/completions") -> Outcome:
    """What becomes of one stream with this answer."""
    with serving(answer) as port:
        load = Load(lambda: "127.0.0.1", Way(port, path), callers=1)
        wait(load, lambda: load.outcome() != Outcome(0, [], []))
        load.stop_asking()
        wait(load, lambda: load.is_done)
        assert load.running == 0
        return load.outcome()


def test_whole_streams_are_counted_and_asked_for_again() -> None:
    with serving() as port:
        load = Load(lambda: "127.0.0.1", Way(port, "/v1/chat/completions"), callers=2)
        wait(load, lambda: load.is_flowing and load.outcome().finished >= 4)
        load.stop_asking()
        wait(load, lambda: load.is_done)
    found = load.outcome()
    assert found.finished >= 4 and not found.refused and not found.lost


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ((200, DONE, True), "/v1/chat/completions"),
        ((200, DONE[:20], False), "/v1/chat/completions"),
        ((200, FAILED, False), "/v1/chat/completions"),
        ((200, b"text", True), "/"),
    ],
    ids=["cut", "without its end", "with an error", "cut text"],
)
def test_a_stream_that_breaks_off_is_lost(answer: tuple[int, bytes, bool], path: str) -> None:
    found = outcome_of(answer, path)
    assert len(found.lost) == 1 and not found.refused and found.finished == 0


def test_a_request_that_is_not_taken_is_refused() -> None:
    found = outcome_of((503, b"draining", False))
    assert found.refused == ["503: draining"] and not found.lost


@pytest.mark.parametrize("text", [b"text", b""])
def test_text_of_an_app_is_whole_by_its_protocol(text: bytes) -> None:
    found = outcome_of((200, text, False), "/")
    assert found.finished >= 1 and not found.lost


def acted(*events: str, running: int = 1, outcome: Outcome | None = None) -> Acted:
    """A stop in which these things happened."""
    return Acted(list(events), {}, running, outcome or Outcome(1, [], []), 1.0, 1.0)


def test_a_stop_that_loses_nothing_has_no_fault() -> None:
    assert acted("p-0/router SIGTERM", "p-0/router ended 0").faults() == []


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (acted("p-0/router SIGKILL"), "router SIGKILL"),
        (acted("p-0/router ended 1"), "router ended 1"),
        (acted("p-0/worker ended -9"), "worker ended -9"),
        (acted(running=0), "proves nothing"),
        (acted(outcome=Outcome(1, [], ["cut"])), "lost: cut"),
        (acted(outcome=Outcome(1, ["503"], [])), "refused: 503"),
    ],
)
def test_what_a_stop_may_not_have_is_a_fault(found: Acted, fault: str) -> None:
    (only,) = found.faults()
    assert fault in only
