"""The tests marked `gpu`, each function once: with its first, smallest parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.check import Item, NeedsDevice, Settings

__all__ = ["items"]

_ROOT = Path(__file__).resolve().parents[2]
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
        self.smallest: dict[str, str] = {}
        self.errors: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes a file that cannot be read."""
        if report.failed:
            self.errors[report.nodeid] = report.longreprtext

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Notes the first of each function."""
        for item in session.items:
            # A node id names no file outside of pytest's root.
            path, test = item.path, item.nodeid.partition("::")[2]
            shown = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path
            name = f"{shown}::{test.partition('[')[0]}"
            self.smallest.setdefault(name, f"{path}::{test}")


class _Outcome:
    """Notes how one test ended."""

    def __init__(self) -> None:
        self.passed = False
        self.error = ""
        self.skipped = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a phase of the test."""
        if report.when == "call" and report.passed:
            self.passed = True
        if report.failed:
            self.error = report.longreprtext
        if report.skipped:
            self.skipped = report.longreprtext


def items(settings: Settings) -> Iterator[Item]:
    """One item a test function; one more for each file that cannot be read."""
    options = Path(settings.scratch) / "pytest.ini"
    options.write_text(_OPTIONS, encoding="utf-8")
    command = ["-c", str(options), "--rootdir", str(_ROOT), "-p", "no:cacheprovider", "-q"]
    files = [str(file) for file in _marked(settings.tests)]
    if not files:
        return
    collected = _Collected()
    pytest.main([*command, "--collect-only", "-m", "gpu", *files], [collected])
    for name, error in collected.errors.items():
        yield Item(name, partial(_fail, error))
    for name, node in collected.smallest.items():
        yield Item(name, partial(_run, command, node, settings.dry))


def _marked(places: tuple[str, ...]) -> Iterator[Path]:
    """Files with a test marked `gpu`; others may need what the machine lacks."""
    for place in places:
        path = Path(place)
        for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            if _MARK.search(file.read_text(encoding="utf-8")):
                yield file


def _run(command: list[str], node: str, dry: bool) -> dict[str, Any]:
    outcome = _Outcome()
    pytest.main([*command, node], [outcome])
    if dry and outcome.skipped and not outcome.error:
        raise NeedsDevice("needs a device")
    if outcome.error or not outcome.passed:
        _fail(outcome.error or outcome.skipped or "the test did not run")
    return {"test": node.rpartition("::")[2]}


def _fail(error: str) -> dict[str, Any]:
    raise AssertionError(error[-_ERROR_CHARACTERS:])
