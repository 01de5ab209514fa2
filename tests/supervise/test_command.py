"""Commands in processes of their own: their ready line, their last words, their end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spectrie.errors import SpectrieError
from spectrie.supervise import command

READY = 'import time\nprint(\'spectrie ready {"grpc": "h:1"}\', flush=True)\ntime.sleep(60)'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for the `spectrie` command: `python FILE ARGUMENTS`."""
    path = tmp_path / "command.py"
    launcher = tmp_path / "python"
    launcher.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {path} "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(launcher))
    return path


def test_facts_of_the_ready_line_and_the_log_before_it(script: Path) -> None:
    script.write_text(f"import sys\nprint('loading', file=sys.stderr, flush=True)\n{READY}")
    shown: list[str] = []
    with command.running(["serve", "m"], shown.append) as facts:
        assert facts == {"grpc": "h:1"}
    assert set(shown) <= {"loading"}


def test_the_process_is_stopped_by_an_error_inside(script: Path, tmp_path: Path) -> None:
    mark = tmp_path / "stopped"
    script.write_text(
        "import signal, sys, pathlib\n"
        f"def stop(*_): pathlib.Path({str(mark)!r}).touch(); sys.exit(0)\n"
        f"signal.signal(signal.SIGINT, stop)\n{READY}"
    )
    with (
        pytest.raises(RuntimeError, match="inside"),
        command.running([], lambda line: None),
    ):
        raise RuntimeError("inside")
    assert mark.exists()


def test_an_early_end_tells_code_and_last_lines(script: Path) -> None:
    script.write_text("import sys\nprint('no such model', file=sys.stderr)\nsys.exit(3)")
    with (
        pytest.raises(SpectrieError, match="exit code 3 before it was ready") as caught,
        command.running([], lambda line: None),
    ):
        pass
    assert "no such model" in str(caught.value)


def test_words_that_come_after_the_end_of_the_output_are_told(script: Path) -> None:
    script.write_text(
        "import os, sys, time\nos.close(1)\ntime.sleep(0.5)\n"
        "print('no such model', file=sys.stderr)\nsys.stderr.flush()\nos._exit(3)"
    )
    with (
        pytest.raises(SpectrieError, match="no such model"),
        command.running([], lambda line: None),
    ):
        pass


def test_sigterm_stops_both_processes(script: Path, tmp_path: Path) -> None:
    mark = tmp_path / "stopped"
    script.write_text(
        "import signal, sys, pathlib\n"
        f"def stop(*_): pathlib.Path({str(mark)!r}).touch(); sys.exit(0)\n"
        f"signal.signal(signal.SIGINT, stop)\n{READY}"
    )
    code = (
        "from spectrie.supervise import command\n"
        f"import sys\nsys.executable = {sys.executable!r}\n"
        "with command.running([], lambda line: None):\n"
        "    print('inside', flush=True)\n"
        "    import time; time.sleep(60)\n"
    )
    outer = subprocess.Popen(
        [str(Path(sys.prefix) / "bin" / "python"), "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert outer.stdout is not None
    assert outer.stdout.readline() == "inside\n"
    outer.send_signal(signal.SIGTERM)
    assert outer.wait(30) == 143
    outer.stdout.close()
    assert mark.exists()
