"""An app in one pod with Spectrie: `curl --data "a prompt" http://127.0.0.1:8080` streams the model's answer."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from spectrie import Client
from spectrie.errors import ConnectFailed, SpectrieError, StreamInterrupted, Unavailable

WAIT_S, ANSWER_S = float(os.environ.get("WAIT_SECONDS", "300")), 60.0
TOKENS = int(os.environ.get("ANSWER_TOKENS", "256"))
# Calls that reach no server, or one without a worker, are made again for as long as an answer may take.
client = Client(os.environ.get("SPECTRIE_TARGET", "127.0.0.1:50051"), max_retries=100)


def wait_for_model() -> None:
    """Returns once a model can answer; a container that waits for ever would hide what is wrong."""
    probe, deadline = client.with_options(timeout=5, max_retries=0), time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            if probe.list_models():
                return
        except (ConnectFailed, Unavailable) as error:
            print(f"waiting for the model: {error}", flush=True)
        time.sleep(0.5)
    raise SystemExit(f"no model at {client.target} within {WAIT_S:g} s")


def pieces(prompt: str) -> Iterator[str]:
    """The answer as it comes. The client itself rejoins a stream that was cut. A sidecar that was restarted no
    longer has it, but says the same again for the same seed: of that, what was sent is left out."""
    seed, sent, deadline = random.getrandbits(32), 0, time.monotonic() + ANSWER_S
    while True:
        text, left_s = "", max(deadline - time.monotonic(), 0.001)
        try:
            for piece in client.stream(prompt, max_tokens=TOKENS, seed=seed, timeout=left_s):
                text += piece.text
                yield text[sent:]
                sent = max(sent, len(text))
            return
        except StreamInterrupted as cut:
            print(f"asking again for seed {seed}: {cut}", flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds for a client that sends or reads nothing

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        answer = pieces(self.rfile.read(int(self.headers["Content-Length"])).decode())
        try:
            first = next(answer, "")
        except SpectrieError as error:
            return self.send_error(503, str(error))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in itertools.chain([first], answer):
            if piece:  # an empty chunk would end the answer
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece.encode()), piece.encode()))
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close() waits for the answers that have begun


def main() -> None:
    signal.signal(
        signal.SIGTERM, lambda *_: os._exit(0)
    )  # the first process of a container has no other end
    wait_for_model()
    host, _, port = os.environ.get("APP_LISTEN", "127.0.0.1:8080").rpartition(":")
    server = Server((host, int(port)), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on {host}:{server.server_port}", flush=True)
    server.serve_forever()
    print("stopping: no new requests, those that have begun are answered", flush=True)
    server.server_close()


if __name__ == "__main__":
    main()
