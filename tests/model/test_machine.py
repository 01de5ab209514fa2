"""Cores and memory come from the container where it allows less than the machine, and others may use them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from spectrie.model import machine

MIB = 1 << 20


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def test_cgroup_two_limits_memory_and_counts_page_cache_as_free(cgroup: Path) -> None:
    files = {
        "memory.max": str(40 * MIB),
        "memory.current": str(30 * MIB),
        "memory.stat": f"anon 5\ninactive_file {5 * MIB}",
    }
    write(cgroup, files)
    assert machine.available_memory_bytes() == 15 * MIB


def test_cgroup_one_limits_memory(cgroup: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": str(40 * MIB),
        "memory/memory.usage_in_bytes": str(30 * MIB),
    }
    write(cgroup, files)
    assert machine.available_memory_bytes() == 10 * MIB


def test_the_limits_of_its_own_group_and_of_those_around_it_hold(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = cgroup / "own"
    own.write_text("0::/system.slice/worker.service\n")
    monkeypatch.setattr(machine, "_OWN_CGROUP", own)
    used = {"memory.current": str(10 * MIB)}
    write(
        cgroup / "system.slice", {"memory.max": str(80 * MIB), **used, "cpu.max": "100000 100000"}
    )
    write(cgroup / "system.slice" / "worker.service", {"memory.max": "max", **used})
    assert machine.available_memory_bytes() == 70 * MIB
    assert machine.num_cores() == 1
    write(cgroup / "system.slice" / "worker.service", {"memory.high": str(30 * MIB)})
    assert machine.available_memory_bytes() == 20 * MIB


def test_a_group_of_version_one_is_found_by_its_controller(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = cgroup / "own"
    own.write_text("5:cpu,cpuacct:/\n4:memory:/jobs/1\n0::/\n")
    monkeypatch.setattr(machine, "_OWN_CGROUP", own)
    limits = {"memory.limit_in_bytes": str(40 * MIB), "memory.usage_in_bytes": str(30 * MIB)}
    write(cgroup / "memory" / "jobs" / "1", limits)
    assert machine.available_memory_bytes() == 10 * MIB


def test_cgroup_without_limits_leaves_the_machine(cgroup: Path) -> None:
    unlimited = machine.available_memory_bytes()
    write(cgroup, {"memory.max": "max", "memory.current": "5", "cpu.max": "max 100000"})
    assert machine.available_memory_bytes() > unlimited // 2 > 40 * MIB
    assert machine.num_cores() >= 1


@pytest.mark.parametrize(
    "files",
    [
        {"cpu.max": "150000 100000"},
        {"cpu.max": "20000 100000"},
        {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"},
    ],
)
def test_cpu_quota_is_rounded_down_to_at_least_one_core(
    cgroup: Path, files: dict[str, str]
) -> None:
    write(cgroup, files)
    assert machine.num_cores() == 1


class Clocks:
    """A machine of some cores of which this process may use the first ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, cores: int, own: int) -> None:
        self.now_s = 0.0
        self.used_s = [0.0] * cores
        self.own_s = 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.pass_by)
        monkeypatch.setattr(machine, "time", clock)
        monkeypatch.setattr(os, "times", lambda: os.times_result((self.own_s, 0, 0, 0, 0)))
        monkeypatch.setattr(machine, "_own_cpus", lambda: set(range(own)))
        monkeypatch.setattr(machine, "num_cores", lambda: min(own, 4))
        monkeypatch.setattr(machine, "_ticks_of_children", lambda _: 0)
        monkeypatch.setattr(machine, "_read", lambda path: self._stat())
        self.others = [0.0] * cores
        self.ours = [0.0] * cores

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds
        for core, (other, own) in enumerate(zip(self.others, self.ours, strict=True)):
            self.used_s[core] += (other + own) * seconds
            self.own_s += own * seconds

    def _stat(self) -> str:
        ticks = os.sysconf("SC_CLK_TCK")
        lines = [
            # Half of it as system's, and a part that another virtual machine had.
            f"cpu{core} {used * ticks * 0.4:.0f} 0 {used * ticks * 0.5:.0f} 9 9 0 0 {used * ticks * 0.1:.0f} 0 0"
            for core, used in enumerate(self.used_s)
        ]
        return "\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *lines, "intr 5"])


@pytest.mark.parametrize(
    ("own", "others", "ours", "expected"),
    [
        (2, [0.0, 0.0], [1.0, 1.0], False),
        (2, [0.2, 0.1], [0.8, 0.9], False),
        (2, [0.5, 0.5], [0.5, 0.5], True),
        (2, [1.0, 0.0], [0.0, 1.0], True),
        # Others beside the cores that it may use, and on cores that it leaves.
        (2, [0.0, 0.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0], False),
        (6, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0, 1.0], False),
        (6, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], True),
    ],
)
def test_others_compete_where_they_leave_less_than_the_cores(
    monkeypatch: pytest.MonkeyPatch,
    own: int,
    others: list[float],
    ours: list[float],
    expected: bool,
) -> None:
    clocks = Clocks(monkeypatch, cores=len(others), own=own)
    clocks.pass_by(100.0)
    clocks.others, clocks.ours = others, ours
    competition = machine.Competition()
    clocks.pass_by(2.0)
    assert competition.is_there() is expected
    assert competition.cores() == pytest.approx(sum(others[:own]))
    assert machine.is_busy() is expected
    # What was a minute ago is past.
    clocks.others = [0.0] * len(others)
    assert not machine.is_busy()


def test_without_times_of_processors_the_load_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_read", lambda path: None)
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    for load, expected in ((2.4, False), (2.6, True)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert machine.Competition().is_there() is expected
        assert machine.Competition().cores() is None


SPIN = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def test_children_and_theirs_are_no_others(tmp_path: Path) -> None:
    """A child with a child of its own counts as this process; on its own, it is another."""
    before = machine._ticks_of_children(os.getpid())
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"
    child = subprocess.Popen([sys.executable, "-c", inner], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while machine._ticks_of_children(os.getpid()) < before + 50:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def test_processes_of_others_on_all_cores_make_it_busy() -> None:
    # Their parent ends, so that they are nobody's children here.
    start = (
        "import subprocess, sys\n"
        f"command, out = [sys.executable, '-c', {SPIN!r}], subprocess.DEVNULL\n"
        f"spin = [subprocess.Popen(command, stdout=out, stderr=out) for _ in range({machine.num_cores()})]\n"
        "print(*(one.pid for one in spin))"
    )
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    pids = list(map(int, done.stdout.split()))
    try:
        deadline = time.monotonic() + 15
        while not machine.is_busy():
            assert time.monotonic() < deadline
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
