"""A filter that matches no test fails, and the tests' own result stays."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tools.filtered_tests import main, num_ran, unmatched
from tools.walls.rust_text import inline_modules

ROOT = Path(__file__).resolve().parents[2]
TEST = re.compile(r"#\[(?:tokio::)?test\]\s*(?:(?://[^\n]*|#\[[^\]]*\])\s*)*(?:async )?fn (\w+)")

OUTPUT = """
running 3 tests
test store::segment::tests::a_reader_sees_whole_text ... ok
test store::pool::tests::long_form ... ignored, deep
test sources::chains::tests::panics - should panic ... ok

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out
"""
NONE = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n"
CARGO = ["cargo", "test", "-p", "spectrie-trie", "--lib"]


@pytest.mark.parametrize(
    ("filters", "missing"),
    [
        ([], []),
        (["--", "--ignored"], []),
        (["--", "segment::", "chains::"], []),
        (["--", "segment::", "durable::"], ["durable::"]),
        (["--", "pool::"], ["pool::"]),
    ],
)
def test_every_filter_needs_a_test_that_ran(filters: list[str], missing: list[str]) -> None:
    assert unmatched([*CARGO, *filters], OUTPUT) == missing


@pytest.mark.parametrize("filters", [[], ["--", "--ignored"]])
def test_without_filters_some_test_must_have_run(filters: list[str]) -> None:
    assert unmatched([*CARGO, *filters], NONE) == ["any test"]


def test_tests_that_were_ignored_did_not_run() -> None:
    assert (num_ran(OUTPUT), num_ran(NONE)) == (2, 0)


@pytest.mark.parametrize(
    ("output", "code", "result"),
    [(OUTPUT, 0, 0), (NONE, 0, 1), (OUTPUT, 101, 101), (NONE, 101, 101)],
)
def test_the_exit_code_is_the_commands_unless_nothing_ran(
    tmp_path: Path,
    output: str,
    code: int,
    result: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "cargo.py"
    script.write_text(f"import sys\nprint({output!r})\nsys.exit({code})\n")
    assert main([sys.executable, str(script)]) == result
    shown = capfd.readouterr()
    assert output.strip() in shown.out
    assert ("mend the filter" in shown.err) == (code == 0 and result == 1)
    assert ("==> 2 tests ran: " in shown.out) == (output == OUTPUT and code == 0)


def test_quiet_runs_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["false", "--quiet"]) == 2
    assert "leave it out" in capfd.readouterr().err


def commands(place: str) -> list[str]:
    """The lines of a file that choose tests of cargo, continued ones joined."""
    text = (ROOT / place).read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if "cargo" in line and " test " in line]
    return [line for line in lines if re.search(r"--lib|--ignored|--test ", line)]


def names_of(crate: str, target: str) -> list[str]:
    """The paths of a crate's tests, those of its library or of one file or folder under `tests`."""
    folder = ROOT / "rust" / crate.removeprefix("spectrie-")
    source = folder / "src" if target == "--lib" else folder / "tests" / target
    is_file = not source.is_dir()
    files = [source.with_suffix(".rs")] if is_file else source.rglob("*.rs")
    names = []
    for file in files:
        text = file.read_text()
        path = () if is_file else file.relative_to(source).with_suffix("").parts
        parts = [part for part in path if part not in ("mod", "main")]
        inside = inline_modules(text)
        for found in TEST.finditer(text):
            around = [name for begin, end, name in inside if begin <= found.start() < end]
            names.append("::".join([*parts, *around, found[1]]))
    return names


@pytest.mark.parametrize("place", ["Makefile", "tools/nightly.sh"])
def test_every_filtered_command_is_run_by_it(place: str) -> None:
    wrapped = ("$(FILTERED)", '"${filtered[@]}"')
    assert commands(place)
    assert [one for one in commands(place) if not any(word in one for word in wrapped)] == []


@pytest.mark.parametrize("place", ["Makefile", "tools/nightly.sh"])
def test_filters_name_tests_that_are_there(place: str) -> None:
    for command in commands(place):
        _, _, behind = command.partition(" -- ")
        filters = [word for word in behind.split() if not word.startswith("-")]
        if filters:
            crate = command.partition("-p ")[2].split()[0]
            target = "--lib" if "--lib" in command else command.partition("--test ")[2].split()[0]
            names = names_of(crate, target)
            missing = [one for one in filters if not any(one in name for name in names)]
            assert missing == [], command
