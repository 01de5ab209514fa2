"""Which of several processes runs a test, where `make test` starts more than one (pytest-xdist)."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

_TOGETHER = ("tests/exactness/", "tests/training/", "tests/packaging/")
"""Folders whose tests share what takes minutes to make. They go first, so that none runs alone at the end."""


class _Files(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Keeps the tests of a file in one process, and those of some folders."""

    def _split_scope(self, nodeid: str) -> str:
        folder = next((folder for folder in _TOGETHER if nodeid.startswith(folder)), None)
        return folder or super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Files:
    """Called by pytest-xdist."""
    return _Files(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts first what takes longest."""
    items.sort(key=lambda item: not item.nodeid.startswith(_TOGETHER))
