"""`python -m spectrie.model.runner.follower`: a rank above 0, started by rank 0."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from spectrie.errors import RankLost, SpectrieError
from spectrie.model.parallel.group import Seat
from spectrie.model.parallel.message import Command
from spectrie.model.parallel.ranks import READY

__all__ = ["main"]


def main() -> int:
    """Runs the commands of rank 0 until it sends stop; returns the exit code."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    seat = arguments.pop("seat")
    _end_with_parent(Path(seat["folder"]))
    rank = seat["rank"]
    try:
        _follow(Seat(**(seat | {"folder": Path(seat["folder"])})), arguments)
    except SpectrieError as error:
        print(f"spectrie: rank {rank}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _follow(seat: Seat, arguments: dict[str, Any]) -> None:
    from spectrie.model.runner.loading import LoadOptions, assemble

    options = LoadOptions(**(arguments | {"folder": Path(arguments["folder"])}))
    loaded = assemble(options, seat=seat, ready=_say_ready)
    group, decoder = loaded.group, loaded.decoder
    if group is None:
        raise RankLost("a follower without a group")
    try:
        while True:
            message = group.receive()
            if message.command is Command.STOP:
                return
            if message.command is Command.SET_THREADS:
                decoder.set_threads(message.value)
            elif message.plan is not None:
                try:
                    decoder.forward(message.plan)
                except ValueError:
                    # Refused before anything was computed, and on rank 0 too, which reports why.
                    continue
    finally:
        group.close()


def _say_ready() -> None:
    print(READY, flush=True)


def _end_with_parent(folder: Path) -> None:
    """Waits for the end of standard input: rank 0 never writes to it, so it ends when rank 0 does."""

    def watch() -> None:
        sys.stdin.buffer.read()
        # Rank 0 removes it too, but not where it was killed.
        shutil.rmtree(folder, ignore_errors=True)
        # A forward may be waiting for rank 0 in a library that nothing interrupts.
        os._exit(1)

    threading.Thread(target=watch, name="spectrie-parent", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
