"""The real model, and the reference answers that everything is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.exactness.cases import cases
from tests.exactness.matrix import REFERENCES, Outcome, run
from tests.exactness.runners import Runners, converted, native


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many cases of a number format ran in another one."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    note = converted([report.nodeid for report in reports])
    if note is not None:
        terminalreporter.section("number formats")
        terminalreporter.write_line(note)


@pytest.fixture(scope="session")
def model() -> Path:
    """Folder of the real model."""
    from spectrie.model import resolve

    return resolve("smollm2-135m").folder


@pytest.fixture(scope="session")
def runners(model: Path) -> Iterator[Runners]:
    """The real model, loaded once in each way."""
    loaded = Runners(model)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def reference(runners: Runners) -> Callable[[str], Outcome]:
    """Gives the answers of a number format without speculation."""
    references = {one.dtype: one for one in REFERENCES}

    @cache
    def of_native(dtype: str) -> Outcome:
        return run(runners, references[dtype], cases())

    return lambda dtype: of_native(native(dtype))


@pytest.fixture(params=["float32", "bfloat16"], scope="session")
def dtype(request: pytest.FixtureRequest) -> str:
    """Each number format."""
    name: str = request.param
    return name
