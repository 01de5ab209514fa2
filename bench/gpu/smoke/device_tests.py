"""The tests marked `gpu`: each function once with its first, smallest parameters, or with all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.check import Item, NeedsDevice, Settings

__all__ = ["all_items", "items"]

_ROOT = Path(__file__).resolve().parents[3]
_MARK = re.compile(r"\bmark\.gpu\b")
_ERROR_CHARACTERS = 2000
# The project's own options need plugins that a bare machine may lack.
_OPTIONS = """[pytest]
addopts = --import-mode=importlib --strict-markers
markers =
  gpu: needs a GPU
  model: needs the real model
  deep: long form
"""


class _Collected:
    """Notes the tests that are found, and the errors of files that cannot be read."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[str]] = {}
        self.errors: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes a file that cannot be read."""
        if report.failed:
            self.errors[report.nodeid] = report.longreprtext

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Notes the tests of each function, in their order."""
        for item in session.items:
            # A node id names no file outside of pytest's root.
            path, test = item.path, item.nodeid.partition("::")[2]
            shown = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path
            name = f"{shown}::{test.partition('[')[0]}"
            self.nodes.setdefault(name, []).append(f"{path}::{test}")


class _Outcome:
    """Notes how some tests ended: how many passed, and the first error or reason to skip."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.error = ""
        self.skipped = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a phase of the test."""
        if report.when == "call" and report.passed:
            self.passed += 1
        if report.failed:
            self.failed.append(report.nodeid.partition("::")[2])
            self.error = self.error or report.longreprtext
        if report.skipped:
            self.skipped = report.longreprtext


def items(settings: Settings) -> Iterator[Item]:
    """One item a test function, of its first test; one more for each file that cannot be read."""
    yield from _found(settings, 1)


def all_items(settings: Settings) -> Iterator[Item]:
    """Like `items`, of all tests of each function; without a device the first one stands for them."""
    yield from _found(settings, 1 if settings.dry else None)


def _found(settings: Settings, count: int | None) -> Iterator[Item]:
    options = Path(settings.scratch) / "pytest.ini"
    options.write_text(_OPTIONS, encoding="utf-8")
    command = ["-c", str(options), "--rootdir", str(_ROOT), "-p", "no:cacheprovider", "-q"]
    files = [str(file) for file in _marked(settings.tests)]
    if not files:
        return
    collected = _Collected()
    pytest.main([*command, "--collect-only", "-m", "gpu", *files], [collected])
    for name, error in collected.errors.items():
        yield Item(name, partial(_fail, error[-_ERROR_CHARACTERS:]))
    for name, nodes in collected.nodes.items():
        yield Item(name, partial(_run, command, nodes[:count], settings.dry))


def _marked(places: tuple[str, ...]) -> Iterator[Path]:
    """Files with a test marked `gpu`; others may need what the machine lacks."""
    for place in places:
        path = Path(place)
        for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            if _MARK.search(file.read_text(encoding="utf-8")):
                yield file


def _run(command: list[str], nodes: list[str], dry: bool) -> dict[str, Any]:
    outcome = _Outcome()
    pytest.main([*command, *nodes], [outcome])
    if dry and outcome.skipped and not outcome.error:
        raise NeedsDevice("needs a device")
    if outcome.error or not outcome.passed:
        failed = f"{', '.join(outcome.failed)[:_ERROR_CHARACTERS]}\n" if len(nodes) > 1 else ""
        error = outcome.error or outcome.skipped or "the test did not run"
        _fail(failed + error[-_ERROR_CHARACTERS:])
    return {"test": nodes[0].rpartition("::")[2], "passed": outcome.passed}


def _fail(error: str) -> dict[str, Any]:
    raise AssertionError(error)
