"""A router whose worker reports everything, so that every metric has a series."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from spectrie._proto import worker_pb2 as pb
from tests.http.scripted_worker import MODEL, ScriptedWorker
from tests.http.server import router
from tests.waiting import wait_until

__all__ = ["PATIENCE_S", "Watched", "watched"]

PATIENCE_S = 60.0


class _Reporting(ScriptedWorker):
    """Sends its load after each message; all that counts up does so each time."""

    def _messages(self) -> Iterator[pb.WorkerMessage]:
        count = 0
        for message in super()._messages():
            if message.HasField("hello"):
                message.hello.drafter.CopyFrom(pb.Drafter(name="head", kind="eagle3"))
            yield message
            if message.WhichOneof("message") in ("ready", "heartbeat", "step_output"):
                count += 1
                yield pb.WorkerMessage(load=_load(count))


def _load(count: int) -> pb.Load:
    bins = [pb.CalibrationBin(trials=count, expected=count, accepted=count) for _ in range(10)]
    return pb.Load(
        pages_used=8,
        pages_total=16,
        pages_cached=2,
        memory_bytes=1024,
        memory_tokens=100,
        steps=count,
        expected_accepted=count,
        holdout_steps=count,
        calibration=bins,
        evicted_tokens=count,
        corpus_bytes=4096,
        lost_corpus_blocks=1,
        recycling=True,
        prefix_query_tokens=2 * count,
        prefix_hit_tokens=count,
        choices_total=2 * count,
        choices_right=count,
        dropped_tokens=[count] * 6,
        draft_seconds=count / 1000,
        step_times=_counted(count),
        verify_times=_counted(count),
        draft_times=_counted(count),
        tree_nodes=_counted(count),
        memory_lookups=2 * count,
        memory_hits=count,
        inserted_tokens=count,
        memory_namespaces=2,
        learn_seconds=count / 1000,
        net_gain=1.5,
        net_gain_low=1.25,
        net_gain_high=1.75,
        snapshot_written_bytes=count,
        head_levels=count,
        head_rows=count,
        head_gain=1.5,
        head_gain_low=1.25,
        head_gain_high=1.75,
    )


def _counted(count: int) -> pb.Histogram:
    return pb.Histogram(counts=[count], sum=count / 1000)


class Watched:
    """A running router with such a worker.

    Attributes:
        metrics: `HOST:PORT` of its metrics.
    """

    def __init__(self, url: str, metrics: str, worker: ScriptedWorker) -> None:
        self.metrics = metrics
        self._url = url
        self._worker = worker

    def use(self) -> None:
        """One request of each kind: answered, with a prediction, refused, sent again, left."""
        content = [{"role": "user", "content": "hello"}]
        body = {"model": MODEL, "messages": content}
        prediction = {"type": "content", "content": "The café is not open"}
        with httpx.Client(base_url=self._url, timeout=PATIENCE_S) as client:
            chat = "/v1/chat/completions"
            assert client.post(chat, json=body).status_code == 200
            assert client.post(chat, json=body | {"prediction": prediction}).status_code == 200
            assert client.post(chat, json=body | {"model": "unknown"}).status_code == 404
            hanging = {"model": MODEL, "prompt": "HANG", "stream": True}
            with client.stream("POST", "/v1/completions", json=hanging) as answer:
                next(answer.iter_lines())
        self._worker.cancelled.get(timeout=PATIENCE_S)

    def samples(self) -> set[str]:
        """The names of all series that it exports now."""
        lines = httpx.get(f"http://{self.metrics}/metrics", timeout=30).text.splitlines()
        return {line.partition(" ")[0].partition("{")[0] for line in lines if line[:1] != "#"}


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    """Runs one, ready, with its sockets in `folder`."""
    with (
        router(folder, "--metrics-listen", "127.0.0.1:0") as facts,
        _Reporting(facts["worker"]) as worker,
    ):
        url = f"http://{facts['http']}"
        wait_until(
            lambda: httpx.get(f"{url}/readyz", timeout=30).status_code == 200,
            PATIENCE_S,
            lambda: "the router did not take the worker",
        )
        yield Watched(url, facts["metrics"], worker)
