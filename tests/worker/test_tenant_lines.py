"""Jobs of many tenants on a few threads: each tenant's next in turn."""

from __future__ import annotations

import threading

from spectrie.worker.tenant_lines import TenantLines
from tests.worker.scripted import WAIT_S


class Jobs:
    """Jobs that note their names and then wait for a permit."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.permits = threading.Semaphore(0)
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def run(self, name: str) -> None:
        self.names.append(name)
        self.began.release()
        assert self.permits.acquire(timeout=WAIT_S)
        self.ended.release()
        if name == "bad":
            raise RuntimeError("a job that fails")

    def await_begun(self, number: int) -> None:
        for _ in range(number):
            assert self.began.acquire(timeout=WAIT_S)


def test_each_tenant_gets_its_turn_and_keeps_its_order() -> None:
    jobs, lines = Jobs(), TenantLines(1, "test")
    for name in ("a0", "a1", "a2", "a3", "b0", "b1", "c0"):
        lines.submit(name[0], lambda name=name: jobs.run(name))  # type: ignore[misc]
    jobs.await_begun(1)
    assert jobs.names == ["a0"]
    jobs.permits.release(7)
    jobs.await_begun(6)
    assert jobs.names[0] == "a0"
    # Whether the first began alone or with others in line, no tenant goes twice before another.
    assert [name for name in jobs.names if name[0] == "a"] == ["a0", "a1", "a2", "a3"]
    assert jobs.names.index("c0") < jobs.names.index("b1") < jobs.names.index("a3")
    assert jobs.names.index("b0") < jobs.names.index("a2")


def test_no_more_run_at_once_than_there_are_threads_and_a_bad_job_costs_none() -> None:
    jobs, lines = Jobs(), TenantLines(2, "test")
    for name in ("bad", "bad", "bad", "good"):
        lines.submit("a", lambda name=name: jobs.run(name))  # type: ignore[misc]
    jobs.await_begun(2)
    assert jobs.names == ["bad", "bad"]
    jobs.permits.release()
    jobs.await_begun(1)
    assert len(jobs.names) == 3
    jobs.permits.release(3)
    jobs.await_begun(1)
    assert jobs.names == ["bad", "bad", "bad", "good"]


def test_closing_drops_what_waits() -> None:
    jobs, lines = Jobs(), TenantLines(1, "test")
    for name in ("runs", "waits"):
        lines.submit("a", lambda name=name: jobs.run(name))  # type: ignore[misc]
    jobs.await_begun(1)
    lines.close()
    lines.submit("b", lambda: jobs.run("late"))
    jobs.permits.release(3)
    assert jobs.ended.acquire(timeout=WAIT_S)
    assert not jobs.ended.acquire(timeout=0.1)
    assert jobs.names == ["runs"]
