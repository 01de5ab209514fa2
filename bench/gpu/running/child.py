"""The process that runs a stage's checks: a fault that ends it, or its GPU's context, ends no stage.

Reads a check as one line of JSON, prints lines of JSON: `begin` before each item, `row` after it, and
`end`, with `broken` if nothing further can run on the GPU in this process.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["main"]

_ERROR_CHARACTERS = 2000


def main() -> None:
    """Runs checks until standard input ends."""
    # Whatever libraries print goes to standard error; standard output is the parent's alone.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    from bench.gpu.check import Settings
    from bench.gpu.clock import clock_of

    if os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton"):
        # Tests are no package that mypy may see twice.
        importlib.import_module("kernels.tests.quick_interpreter").hasten(finds_overflow=False)

    for line in sys.stdin:
        task = json.loads(line)
        settings = Settings(**(task["settings"] | {"tests": tuple(task["settings"]["tests"])}))
        seconds = clock_of(settings.dry).seconds
        if _run(task, settings, seconds, say):
            say(end=True, broken=True)
            return
        say(end=True, broken=False)


def _run(
    task: dict[str, Any], settings: Any, seconds: Callable[[], float], say: Callable[..., None]
) -> bool:
    """Runs the items that are not done; returns whether the GPU is broken for this process."""
    from bench.gpu.check import NeedsDevice, Wrong

    for item in _items(task["items"], settings):
        if item.name in task["done"]:
            continue
        say(begin=item.name)
        started = seconds()
        try:
            values = dict(item.run())
            row = {"state": "ok", "seconds": seconds() - started, "values": values}
        except NeedsDevice as reason:
            row = {"state": "skipped", "error": str(reason)}
        except Wrong as wrong:
            values = dict(wrong.values)
            row = {"state": "fault", "error": str(wrong), "values": values}
        except (Exception, SystemExit) as error:
            row = {"state": "fault", "error": described(error)}
        say(row={"name": item.name, **row})
        if row["state"] == "fault" and _is_broken():
            return True
    return False


def _items(place: str, settings: Any) -> Iterator[Any]:
    module, _, function = place.partition(":")
    found: Iterator[Any] = getattr(importlib.import_module(module), function)(settings)
    return found


def described(error: BaseException) -> str:
    """An error in one line, and the places that it came through, the last ones if they are many."""
    lines = traceback.format_tb(error.__traceback__)
    head = "".join(traceback.format_exception_only(error)).strip()
    places = "".join(lines).replace(f"{Path(__file__).resolve().parents[3]}/", "")
    return f"{head[:_ERROR_CHARACTERS]}\n{places[-_ERROR_CHARACTERS:]}".strip()


def _is_broken() -> bool:
    """Whether the GPU fails at everything since some kernel failed."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


if __name__ == "__main__":
    main()
