"""Where redis-server cannot be had, `make test-system` says what was not run; what `.ci/run` calls fails."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "env", "find", "id", "make")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of programs, with neither redis-server nor a way to install it; its tests all pass."""
    for name in TOOLS:
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho tests "$@"\n')
    python.chmod(0o755)
    return tmp_path


def run(bare: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`make test-system` without what it depends on."""
    return subprocess.run(
        ["make", "--old-file=model", "test-system", f"BIN={bare}", *arguments],
        cwd=ROOT,
        env={"PATH": str(bare)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_missing_redis_is_said_and_fails_only_where_it_is_required(bare: Path) -> None:
    optional, required = run(bare), run(bare, "REDIS=required")
    for one in (optional, required):
        assert "tests -m pytest" in one.stdout
        assert "NOT RUN: tests/system/fleet" in one.stdout
        assert "missing: redis-server" in one.stderr
    assert (optional.returncode == 0, required.returncode == 0) == (True, False)


def test_tests_of_several_routers_run_where_redis_is_there(bare: Path) -> None:
    (bare / "redis-server").symlink_to("/bin/true")
    found = run(bare, "REDIS=required")
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("tests/system/fleet") == 1 and "NOT RUN" not in found.stdout


def test_continuous_integration_requires_redis() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    runs = [line.split() for line in lines if "test-system" in line and "NOT RUN" not in line]
    assert runs == [["both", "test-system", "test-miri"], ["make", "test-system"]]
    assert [line for line in lines if "REDIS" in line] == ["export REDIS=required"]
    assert "REDIS" not in "".join(lines[lines.index("make test") :])
