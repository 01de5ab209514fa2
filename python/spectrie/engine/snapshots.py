"""Draft memory that outlives the process: snapshots in a folder."""

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
    """Restores an engine's draft memory at the start, and saves it now and then and at the end.

    Saving runs on a thread of its own: no step waits for it. What fails is logged and never ends
    the worker.

    Args:
        engine: Whose memory it is; its speculation is on.
        folder: Where the snapshot lies, this engine's alone; made when missing.
        fingerprint: Of the tokenizer: snapshots of others are refused.
        every_s: Seconds between two snapshots; 0 saves at the end alone.
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
        """Restores what is there, then begins to save."""
        self._restore()
        if self._every_s > 0:
            self._thread = threading.Thread(
                target=self._run, name="spectrie-snapshots", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Saves for the last time."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self.save()

    def save(self) -> bool:
        """Writes a snapshot now; tells whether that worked."""
        from spectrie import _core

        started = time.monotonic()
        try:
            info = self._engine.save(str(self._folder), self._fingerprint)
        except _core.EngineError as error:
            log.error(
                "draft memory was not saved, what it learnt since the last snapshot would be lost "
                "in a restart: %s",
                error,
            )
            return False
        log.info(
            "saved draft memory: %d tokens of %d namespaces in %.2f s",
            info.num_tokens,
            info.num_namespaces,
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
        log.info(
            "restored draft memory: %d tokens of %d namespaces in %.2f s",
            info.num_tokens,
            info.num_namespaces,
            time.monotonic() - started,
        )

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self.save()
