"""Keeps draft memory across restarts, as snapshots in a folder."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectrie import _core

__all__ = ["Snapshots"]

log = logging.getLogger("spectrie.worker")


class Snapshots:
    """Restores an engine's draft memory at the start; saves it periodically and at the end.

    Saving runs on its own thread, so no step waits for it. Failures are logged and never end the
    worker.

    Args:
        engine: The engine with the memory; its speculation is on.
        folder: Folder of the snapshot, used by this engine only; created if missing.
        fingerprint: Fingerprint of the tokenizer; snapshots of a few others are kept beside its own.
        every_s: Seconds between two snapshots; 0 saves at the end only.
    """

    def __init__(
        self, engine: _core.Engine, folder: Path, fingerprint: str, every_s: float = 0.0
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._fingerprint = fingerprint
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Restores the stored snapshot, then starts saving."""
        self._restore()
        if self._every_s > 0:
            self._thread = threading.Thread(
                target=self._run, name="spectrie-snapshots", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Saves one last time and stops."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self.save()

    def save(self) -> bool:
        """Writes a snapshot now; returns whether it succeeded."""
        from spectrie import _core

        started = time.monotonic()
        try:
            info = self._engine.save(str(self._folder), self._fingerprint)
        except _core.EngineError as error:
            log.error(
                "draft memory was not saved, a restart would lose what it learned since the last "
                "snapshot: %s",
                error,
            )
            return False
        log.info(
            "saved draft memory: %d tokens of %d namespaces, %d bytes written in %.2f s",
            info.num_tokens,
            info.num_namespaces,
            info.written_bytes,
            time.monotonic() - started,
        )
        return True

    def _restore(self) -> None:
        from spectrie import _core

        started = time.monotonic()
        try:
            info = self._engine.restore(str(self._folder), self._fingerprint)
        except _core.EngineError as error:
            log.warning("draft memory starts empty: %s", error)
            return
        if not info.bytes:
            log.info("draft memory starts empty: no snapshot in %s yet", self._folder)
            return
        if info.first_damage is not None:
            log.warning(
                "the snapshot of draft memory is damaged: %d runs with %d tokens are lost; first: %s",
                info.damaged_runs,
                info.damaged_tokens,
                info.first_damage,
            )
        log.info(
            "restored draft memory: %d tokens of %d namespaces in %.2f s",
            info.num_tokens,
            info.num_namespaces,
            time.monotonic() - started,
        )

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self.save()
