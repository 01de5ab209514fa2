"""The worker process: loads the model, joins the router, drains on SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from spectrie.engine.host import EngineHost
from spectrie.supervise.pulse import Pulse
from spectrie.supervise.ready_line import print_ready
from spectrie.supervise.signals import wait_for
from spectrie.worker.config import WorkerOptions
from spectrie.worker.health import HealthServer
from spectrie.worker.link import RouterLink
from spectrie.worker.state_folder import claimed
from spectrie.worker.vitals import Vitals

__all__ = ["EXIT_FAILURE", "run_worker"]

log = logging.getLogger("spectrie.worker")

EXIT_FAILURE = 1
EXIT_STOPPED = 130
PROGRESS_S = 1.0


class _Progress:
    """Logs lines of progress, at most one per second: a large model has many layers."""

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals
        self._last_s = -PROGRESS_S

    def __call__(self, line: str) -> None:
        self._vitals.note_loading()
        now = time.monotonic()
        if now - self._last_s >= PROGRESS_S:
            self._last_s = now
            log.info("%s", line)


class _Signals:
    """Handles SIGINT and SIGTERM: the first drains, the second stops. Before the model is warm, the
    first stops."""

    def __init__(self, drain_s: float) -> None:
        self.drain = threading.Event()
        self.drain_s = drain_s
        self.stop = threading.Event()
        self.warm = False
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.warm:
            # The model loads on another thread, inside libraries that nothing interrupts.
            os._exit(0)
        if self.drain.is_set():
            self.stop.set()
        self.drain.set()

    def ask_to_drain(self, grace_s: float | None) -> None:
        """Drains, within `grace_s` seconds or as long as a signal has it."""
        if grace_s is not None:
            self.drain_s = grace_s
        self.drain.set()


def run_worker(options: WorkerOptions, pulse: Callable[[Pulse], None] | None = None) -> int:
    """Runs one worker to its end; returns the exit code, 0 after a drain.

    Args:
        options: Everything it needs.
        pulse: Sends a pulse to its supervisor; None without one.

    Raises:
        ModelError: The model cannot be found, read or run.
        ConfigError: An address cannot be used.
    """
    signals = _Signals(options.drain_s)
    health = HealthServer(options.health_address) if options.health_address else None

    def on_health(healthy: bool) -> None:
        if health is not None:
            health.set_serving(healthy)

    vitals = Vitals(pulse, options.stall_timeout_s, on_health)
    try:
        return _serve(options, signals, health, vitals)
    finally:
        vitals.close()
        if health is not None:
            health.close()


def _serve(
    options: WorkerOptions, signals: _Signals, health: HealthServer | None, vitals: Vitals
) -> int:
    from spectrie.model import resolve

    progress = _Progress(vitals)
    resolved = resolve(options.model, progress)
    died = threading.Event()

    def on_death(error: BaseException) -> None:
        died.set()
        signals.drain.set()

    name = options.link.model_name or resolved.name
    link = RouterLink(options.link, name, on_death, signals.ask_to_drain)
    state_folder = None if options.engine.state_dir is None else Path(options.engine.state_dir)
    with (
        claimed(state_folder),
        _host(resolved.folder, options, link, on_death, progress) as host,
    ):
        signals.warm = True
        vitals.serve(host)
        link.start(host, state_folder)
        _announce(link, signals.drain, _facts(host, options, health))
        wait_for(signals.drain)
        if died.is_set():
            # Nothing can finish any more: the supervisor starts a new worker at once.
            link.close()
            return EXIT_FAILURE
        code = _drain(link, signals)
        vitals.stop()
        return code


def _host(
    folder: Path,
    options: WorkerOptions,
    link: RouterLink,
    on_death: Callable[[BaseException], None],
    progress: _Progress,
) -> EngineHost:
    return EngineHost(
        folder,
        options=options.engine,
        deliver=link.deliver,
        on_death=on_death,
        progress=progress,
    )


def _drain(link: RouterLink, signals: _Signals) -> int:
    running = link.num_running
    if running:
        log.info("draining: %d requests still run; a second signal stops at once", running)
    waiter = threading.Thread(target=link.drain, args=(signals.drain_s,), daemon=True)
    waiter.start()
    while waiter.is_alive() and not signals.stop.is_set():
        waiter.join(0.02)
    stopped = signals.stop.is_set()
    if link.num_running and not stopped:
        log.info("handing over %d requests", link.num_running)
    link.close()
    if stopped:
        log.warning("stopped with requests running")
    return EXIT_STOPPED if stopped else 0


def _announce(link: RouterLink, drain: threading.Event, facts: dict[str, Any]) -> None:
    """Prints the ready line once the router has accepted this worker."""

    def wait() -> None:
        while not link.welcomed.wait(0.1):
            if drain.is_set():
                return
        print_ready(facts)

    threading.Thread(target=wait, name="spectrie-announce", daemon=True).start()


def _facts(host: EngineHost, options: WorkerOptions, health: HealthServer | None) -> dict[str, Any]:
    runner = host.runner
    return {
        "role": "worker",
        "pid": os.getpid(),
        "model": options.link.model_name,
        "dtype": runner.dtype_name,
        "device": runner.device_name,
        "threads": runner.threads,
        "ranks": runner.info.ranks,
        "max_context": runner.max_context,
        "max_running": host.max_running,
        "kv_bytes": runner.info.kv_bytes,
        "kv_tokens": runner.num_pages * runner.page_size,
        "memory_bytes": options.engine.memory_bytes,
        "drafter": next((drafter.line for drafter in runner.drafters), None),
        "drafters": [drafter.line for drafter in runner.drafters],
        "speculation": host.speculation,
        "recycle": options.engine.recycle,
        "bigrams": options.engine.bigrams,
        "corpora": [info.name for info in host.engine.corpora()],
        "state_folder": options.engine.state_dir,
        "max_draft_tokens": options.engine.max_draft_tokens,
        "numeric_fingerprint": runner.numeric_fingerprint,
        "health": None if health is None else health.address,
    }
