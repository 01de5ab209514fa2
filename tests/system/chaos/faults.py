"""Faults at the workers of a running server, in the middle of their streams."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

from spectrie.client import AdminClient, LoadReport
from spectrie.errors import SpectrieError
from tests.system.chaos.relay import Relay
from tests.system.chaos.traffic import NUM_STREAMS, Traffic

__all__ = ["KINDS", "Faults"]

KINDS = ("kill", "stop", "drain", "cut")
PAUSE_S = 0.05
LONGEST_S = 120.0


class Faults:
    """Kills, stops, drains and cuts off workers, each while a stream with tokens runs there.

    Args:
        admin: Operates the server.
        relay: Stands between its workers and its router.
        traffic: The streams.
        workers: How many workers the server has.
        seed: Of the order of faults and workers.
    """

    def __init__(
        self, admin: AdminClient, relay: Relay, traffic: Traffic, workers: int, seed: int
    ) -> None:
        self.counts: Counter[str] = Counter()
        """Faults that hit a stream with tokens, by kind."""
        self._admin = admin
        self._relay = relay
        self._traffic = traffic
        self._workers = workers
        self._received = [0] * NUM_STREAMS
        self._dice = random.Random(seed)

    def strike(self, num: int) -> None:
        """Strikes until so many faults have hit, with every kind as often as any other."""
        kinds: list[str] = []
        while self.counts.total() < num:
            if not kinds:
                kinds = self._dice.sample(KINDS, len(KINDS))
            self._strike(kinds.pop())

    def _strike(self, kind: str) -> None:
        worker, hit = self._victim(kind)
        self._received = self._traffic.received()
        if kind == "kill":
            os.kill(worker.process_id, signal.SIGKILL)
        elif kind == "stop":
            os.kill(worker.process_id, signal.SIGSTOP)
        elif kind == "cut":
            assert self._relay.cut(worker.process_id)
        else:
            hit = min(hit, self._admin.drain(worker.worker, grace_s=0.0).handed_over)
        self.counts[kind] += hit > 0
        print(f"{kind} {worker.worker}: {hit} answers with tokens, at least", flush=True)
        deadline_s = time.monotonic() + LONGEST_S
        while any(one.worker == worker.worker for one in self._loads()):
            assert time.monotonic() < deadline_s, f"{worker.worker} is still there after {kind}"
            time.sleep(PAUSE_S)

    def _victim(self, kind: str) -> tuple[LoadReport, int]:
        """A worker that runs an answer with tokens, and how many at least.

        Others are left, unless it is the only one. Every stream has got a token since the last
        fault: faults in a row without one are how a router knows a request that ends workers.
        """
        deadline_s = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline_s:
            received = zip(self._traffic.received(), self._received, strict=True)
            before = self._traffic.running()
            workers = [one for one in self._loads() if not one.is_draining]
            # Each answer without a token might be at any worker.
            without = NUM_STREAMS - len(before & self._traffic.running())
            self._dice.shuffle(workers)
            if all(now > then for now, then in received) and len(workers) >= min(2, self._workers):
                for worker in workers:
                    hit = worker.choices - without
                    if hit > 0 and (kind != "cut" or self._relay.has(worker.process_id)):
                        return worker, hit
            time.sleep(PAUSE_S)
        raise AssertionError(f"no stream runs; failures: {self._traffic.failures}")

    def _loads(self) -> list[LoadReport]:
        try:
            return self._admin.loads()
        except SpectrieError as error:
            raise AssertionError(f"the router does not answer: {error}") from error
