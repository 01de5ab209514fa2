"""Slow jobs of many tenants on a few threads."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["TenantLines"]

log = logging.getLogger("spectrie.worker")


class TenantLines:
    """Runs jobs on a few threads: a line for each tenant, and each line's first in turn.

    So however many jobs a tenant has, another's waits for those that run and for one job of each
    tenant ahead. Threads start with jobs and end without.

    Args:
        max_threads: Jobs that run at once.
        name: Beginning of the threads' names.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._lock = threading.Lock()
        self._num_threads = 0
        self._is_closed = False
        # In the order of their turns; no line is empty.
        self._lines: dict[str, deque[Callable[[], None]]] = {}

    def submit(self, tenant: str, job: Callable[[], None]) -> None:
        """Puts a job at the end of its tenant's line; after `close`, drops it."""
        with self._lock:
            if self._is_closed:
                return
            self._lines.setdefault(tenant, deque()).append(job)
            if self._num_threads == self._max_threads:
                return
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._num_threads += 1

    def close(self) -> None:
        """Drops the jobs that wait; those that run go on."""
        with self._lock:
            self._is_closed = True
            self._lines.clear()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except (
                BaseException
            ):  # a panic of the core is no Exception, and must not end the thread
                log.exception("a job of %s failed", self._name)

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            tenant = next(iter(self._lines), None)
            if tenant is None:
                self._num_threads -= 1
                return None
            line = self._lines.pop(tenant)
            job = line.popleft()
            if line:
                self._lines[tenant] = line
            return job
