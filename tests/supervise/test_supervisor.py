"""The supervisor restarts what dies or stalls, ends when nothing can start, and drains in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Runs a supervisor over the Python programs given as arguments, one after the other.
HOST = """
import sys, logging
from spectrie.supervise import backoff, supervisor
logging.basicConfig(level=logging.INFO, format="%(message)s")
backoff.FIRST_PAUSE_S = 0.05
backoff.LONGEST_PAUSE_S = float(sys.argv.pop(1))
supervisor.STACKS_S = 1.0
with supervisor.Supervisor(drain_s=5.0) as host:
    for index, source in enumerate(sys.argv[1:]):
        host.start(supervisor.Program(f"child-{index}",
            lambda facts, source=source: [sys.executable, "-c", source, str(facts)],
            stall_timeout_s=1.0 if "open_pulse" in source else None,
            serves=source.split()[2] if source.startswith("# serves") else None))
    ready = host.wait_ready()
    if isinstance(ready, int):
        sys.exit(ready)
    print("all ready", [facts["pid"] for facts in ready], flush=True)
    sys.exit(host.run())
"""

# Ready at once, ends with 0 on SIGTERM, and reports both.
GOOD = """
import json, os, signal, sys, time
def end(*_):
    print("ended", os.getpid(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("spectrie ready", json.dumps({"pid": os.getpid()}), flush=True)
if sys.argv[1] != "None":
    print("given", sys.argv[1], flush=True)
while True:
    time.sleep(0.02)
"""

# Ready at once; makes STEPS steps and no more.
PULSING = """
import json, os, sys, threading, time
from spectrie.supervise.pulse import Pulse, open_pulse
send = open_pulse()
def beat():
    for step in range(10**6):
        send(Pulse(min(step, STEPS), PENDING, 0.0))
        time.sleep(0.05)
threading.Thread(target=beat, daemon=True).start()
print("spectrie ready", json.dumps({"pid": os.getpid()}), flush=True)
def standing_still():
    time.sleep(3600)
standing_still()
"""

# Its signals come to another thread, as one does in effect that comes just before the main thread waits.
DEAF = HOST.replace(
    "sys.exit(host.run())",
    "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); sys.exit(host.run())",
)

# Good at its first start. Later ones end with CODE while there is a file FOLDER/broken.
BROKEN = (
    """
import os, sys
if sys.argv[1] != "None" and os.path.exists("FOLDER/broken"):
    sys.exit(print("no such weights", file=sys.stderr) or CODE)
"""
    + GOOD
)


def broken(folder: Path, code: int) -> str:
    """A program that starts once, and again once `folder` is without the file `broken`."""
    (folder / "broken").touch()
    return BROKEN.replace("FOLDER", str(folder)).replace("CODE", str(code))


def serving(model: str, source: str) -> str:
    """A program that serves a model."""
    return f"# serves {model}\n{source}"


STUBBORN = GOOD.replace("sys.exit(0)", "pass")


class Run:
    """A supervisor process and what it wrote."""

    def __init__(self, *programs: str, longest_pause_s: float = 0.1, host: str = HOST) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                host,
                str(longest_pause_s),
                *(textwrap.dedent(p) for p in programs),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        )

    def wait_ready(self) -> list[int]:
        """Process ids of the children, once all are ready."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("all ready "):
                return [int(pid) for pid in line.removeprefix("all ready [")[:-2].split(",")]
        raise AssertionError(self.process.communicate(timeout=10)[1])

    def end(self) -> tuple[int, str]:
        """Exit code and stderr."""
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


@pytest.fixture
def started() -> Iterator[list[Run]]:
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.process.kill()
        run.process.wait(timeout=10)
        for stream in (run.process.stdout, run.process.stderr):
            if stream is not None:
                stream.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_drain_ends_children_in_order_and_exits_with_zero(started: list[Run]) -> None:
    run = Run(GOOD, GOOD)
    started.append(run)
    pids = run.wait_ready()
    run.process.send_signal(signal.SIGINT)
    code, errors = run.end()
    assert code == 0
    ended = [line for line in errors.splitlines() if "ended" in line]
    assert ended == [f"[child-0] ended {pids[0]}", f"[child-1] ended {pids[1]}"]


def test_second_signal_stops_at_once(started: list[Run]) -> None:
    run = Run(STUBBORN)
    started.append(run)
    (pid,) = run.wait_ready()
    run.process.send_signal(signal.SIGINT)
    assert run.process.stderr is not None
    while "ended" not in run.process.stderr.readline():
        pass
    run.process.send_signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    assert wait_gone(pid)


def test_killed_child_is_started_again_with_the_facts_of_its_first_start(
    started: list[Run],
) -> None:
    run = Run(GOOD)
    started.append(run)
    (pid,) = run.wait_ready()
    os.kill(pid, signal.SIGKILL)
    assert run.process.stderr is not None
    line = ""
    while "restarting it" not in line:
        line = run.process.stderr.readline()
        assert line, "the supervisor ended"
    assert "child-0 ended (signal SIGKILL)" in line
    while "given" not in line:
        line = run.process.stderr.readline()
        assert line, "the supervisor ended"
    assert f"'pid': {pid}" in line
    # A killed supervisor would leave this child running: it does not watch for that.
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] == 0


def test_a_signal_that_does_not_end_the_wait_is_heard(started: list[Run]) -> None:
    run = Run(GOOD, host=DEAF)
    started.append(run)
    run.wait_ready()
    run.process.send_signal(signal.SIGINT)
    code, errors = run.end()
    assert code == 0
    assert "draining" in errors


def lines_until(run: Run, text: str) -> list[str]:
    """The next lines of stderr, up to the one with `text`."""
    assert run.process.stderr is not None
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        line = run.process.stderr.readline()
        assert line, f"the supervisor ended:\n{''.join(lines)}"
        lines.append(line)
    return lines


def test_child_that_stands_still_with_work_pending_writes_its_stacks_and_is_started_again(
    started: list[Run],
) -> None:
    run = Run(PULSING.replace("PENDING", "True").replace("STEPS", "3"))
    started.append(run)
    run.wait_ready()
    # One that got no time of the processor for half a second said nothing: it is started again, too.
    lines_until(run, "child-0 made no progress for 1 s with work pending: killing it\n")
    lines = lines_until(run, "restarting it")
    stacks = "".join(lines)
    assert "in standing_still" in stacks and "in beat" in stacks
    assert "child-0 ended (signal SIGKILL)" in lines[-1]
    lines_until(run, "child-0 made no progress")
    # The second one is watched as the first was.
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] == 0


# Says who it is once it has worked for a while.
WORKING = (
    PULSING.replace("PENDING", "True")
    .replace("STEPS", "10**6")
    .replace(
        "        time.sleep",
        "        if step == 6: print('worked', os.getpid(), flush=True)\n        time.sleep",
    )
)


def test_child_that_works_is_started_again_soon_however_often_it_is_killed(
    started: list[Run],
) -> None:
    run = Run(WORKING, longest_pause_s=60.0)
    started.append(run)
    run.wait_ready()
    for _ in range(10):
        pid = int(lines_until(run, "worked ")[-1].split()[-1])
        os.kill(pid, signal.SIGKILL)
        line = lines_until(run, "restarting it in ")[-1]
    # Without regard to its work, it would be 25.6.
    assert float(line.split()[-2]) < 6.4
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] == 0


def test_child_without_work_may_stand_still_and_a_stopped_one_is_killed(
    started: list[Run],
) -> None:
    run = Run(PULSING.replace("PENDING", "False").replace("STEPS", "3"))
    started.append(run)
    (pid,) = run.wait_ready()
    time.sleep(1.5)
    assert alive(pid)
    os.kill(pid, signal.SIGSTOP)
    lines = lines_until(run, "restarting it")
    assert "child-0 said nothing for 1 s: killing it\n" in lines
    assert "child-0 ended (signal SIGKILL)" in lines[-1]
    assert wait_gone(pid)


# Starts a process in a session of its own, which is stopped as a rank may be, and waits for it.
WITH_CHILD = PULSING.replace(
    "print(",
    """import signal, subprocess
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
os.kill(other.pid, signal.SIGSTOP)
print("other", other.pid, file=sys.stderr, flush=True)
print(""",
)


def test_what_a_stalled_child_started_ends_with_it(started: list[Run]) -> None:
    run = Run(WITH_CHILD.replace("PENDING", "True").replace("STEPS", "3"))
    started.append(run)
    run.wait_ready()
    other = int(lines_until(run, "other")[-1].split()[-1])
    lines_until(run, "restarting it")
    assert wait_gone(other)
    end_others(lines_until(run, "other"))
    run.process.send_signal(signal.SIGINT)
    code, errors = run.end()
    assert code == 0
    end_others(errors.splitlines())


def end_others(lines: list[str]) -> None:
    """Ends what children have started; a child that was stalled by now has ended its own."""
    for line in lines:
        if "] other " in line:
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[-1]), signal.SIGKILL)


def test_child_that_ends_well_is_started_again_at_once_and_without_a_warning(
    started: list[Run],
) -> None:
    run = Run(GOOD)
    started.append(run)
    (pid,) = run.wait_ready()
    os.kill(pid, signal.SIGTERM)
    lines = lines_until(run, "given")
    assert "child-0 drained; starting a fresh one\n" in lines
    assert not any("restarting it" in line for line in lines)
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] == 0


def test_five_failed_starts_end_it_with_the_childs_last_lines(started: list[Run]) -> None:
    run = Run("import sys; sys.exit('no such weights')")
    started.append(run)
    code, errors = run.end()
    assert code == 1
    assert errors.count("[child-0] no such weights") == 5
    assert "did not start in 5 attempts (exit code 1); its last lines:\n  no such weights" in errors


def test_hopeless_child_is_not_started_again(started: list[Run]) -> None:
    run = Run("import sys; print('bad model', file=sys.stderr); sys.exit(78)")
    started.append(run)
    code, errors = run.end()
    assert code == 1
    assert errors.count("bad model") == 1


@pytest.mark.parametrize("code", [78, 1])
def test_worker_that_can_start_no_more_leaves_the_others_alone_and_comes_back_once_it_can(
    started: list[Run], tmp_path: Path, code: int
) -> None:
    run = Run(GOOD, serving("a", GOOD), serving("b", broken(tmp_path, code)))
    started.append(run)
    router, other, pid = run.wait_ready()
    os.kill(pid, signal.SIGKILL)
    for _ in range(2):
        line = lines_until(run, "Now served")[-1]
        assert line.startswith("child-2 ") and "no such weights" in line
        assert "tried again every 0.1 s" in line
        assert line.endswith("Now served: a by 1 of 1 workers, b by 0 of 1 workers\n")
    (tmp_path / "broken").unlink()
    lines_until(run, "child-2 is back")
    run.process.send_signal(signal.SIGINT)
    exit_code, errors = run.end()
    assert exit_code == 0
    for text in (f"[child-0] ended {router}\n", f"[child-1] ended {other}\n", "[child-2] ended "):
        assert text in errors


def test_it_ends_once_every_worker_is_hopeless(started: list[Run], tmp_path: Path) -> None:
    run = Run(GOOD, *(serving(model, broken(tmp_path, 78)) for model in "ab"))
    started.append(run)
    _, first, second = run.wait_ready()
    os.kill(second, signal.SIGKILL)
    lines_until(run, "Now served")
    os.kill(first, signal.SIGKILL)
    code, errors = run.end()
    assert code == 1
    assert "nothing can be served any more: ending\nchild-1 cannot start" in errors


def test_it_ends_with_a_hopeless_program_that_all_others_need(
    started: list[Run], tmp_path: Path
) -> None:
    run = Run(broken(tmp_path, 78), serving("a", GOOD))
    started.append(run)
    router, worker = run.wait_ready()
    os.kill(router, signal.SIGKILL)
    assert run.end()[0] == 1
    assert wait_gone(worker)


def test_worker_that_cannot_start_at_first_ends_it_though_another_serves(
    started: list[Run],
) -> None:
    run = Run(serving("a", GOOD), serving("b", "import sys; sys.exit(78)"))
    started.append(run)
    code, errors = run.end()
    assert code == 1
    assert "child-1 cannot start" in errors and "tried again" not in errors


def test_children_end_when_the_supervisor_is_killed(started: list[Run]) -> None:
    guarded = (
        "from spectrie.supervise.parent_watch import watch_supervisor; watch_supervisor()\n" + GOOD
    )
    run = Run(guarded)
    started.append(run)
    (pid,) = run.wait_ready()
    run.process.kill()
    assert wait_gone(pid)
