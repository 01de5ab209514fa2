"""Progress: a bar that vanishes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from spectrie.printing import progress
from spectrie.printing.progress import Progress


class Screen(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_TERMINAL_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "_LOG_EVERY_S", 0.0)


def test_a_terminal_shows_one_bar_and_is_clean_at_the_end() -> None:
    screen = Screen(terminal=True)
    with Progress("build", 8, screen) as shown:
        shown.show(2, "two")
        shown.show(8, "eight")
    assert "build [######..................]  25%  two" in screen.getvalue()
    assert "100%  eight" in screen.getvalue()
    assert "\n" not in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_log_gets_lines_without_control_characters() -> None:
    screen = Screen(terminal=False)
    with Progress("build", None, screen) as shown:
        shown.show(2, "two so far")
    assert screen.getvalue() == "build: two so far\n"
