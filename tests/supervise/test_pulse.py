"""Pulses through a pipe: what is sent arrives, what cannot be read is passed over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectrie.supervise.pulse import VARIABLE, Pulse, open_pulse, read_pulses

ROOT = Path(__file__).resolve().parents[2]

PULSES = """
import os, signal, sys
from spectrie.supervise.pulse import STACKS_SIGNAL, Pulse, open_pulse
send = open_pulse()
def stuck_here():
    os.kill(os.getpid(), STACKS_SIGNAL)
    for step in range(5000):
        send(Pulse(step, step % 2 == 0, 1.5))
stuck_here()
"""


def test_without_a_supervisor_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert open_pulse() is None
    monkeypatch.setenv(VARIABLE, "none")
    assert open_pulse() is None
    assert VARIABLE not in os.environ


def test_lines_that_are_no_pulses_are_passed_over() -> None:
    read_end, write_end = os.pipe()
    lines = [
        b"{",
        b"[1]",
        b'{"progress": 1}',
        b'{"progress": 2, "pending": true, "patience_s": 3.0}',
    ]
    os.write(write_end, b"\n".join(lines) + b"\n\xff\n")
    os.close(write_end)
    assert list(read_pulses(read_end)) == [Pulse(2, pending=True, patience_s=3.0)]


def test_a_supervisor_that_does_not_read_holds_nobody_up_and_stacks_are_written() -> None:
    read_end, write_end = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PULSES],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), VARIABLE: str(write_end)},
            pass_fds=(write_end,),
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        os.close(write_end)
    assert done.returncode == 0, done.stderr
    assert "in stuck_here" in done.stderr
    pulses = list(read_pulses(read_end))
    # As many as fit the pipe, and then those that would have come after are gone.
    assert pulses[:2] == [Pulse(0, True, 1.5), Pulse(1, False, 1.5)]
    assert 100 < len(pulses) < 5000
