"""A filter that matches no test fails, and the tests' own result stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.filtered_tests import main, unmatched

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


@pytest.mark.parametrize("place", ["Makefile", "tools/nightly.sh"])
def test_every_filtered_command_is_run_by_it(place: str) -> None:
    text = (Path(__file__).parents[2] / place).read_text().replace("\\\n", " ")
    commands = [line.strip() for line in text.splitlines() if "cargo" in line and " test " in line]
    chosen = [
        line for line in commands if "--lib" in line or "--ignored" in line or "--test " in line
    ]
    assert chosen
    wrapped = ("$(FILTERED)", '"${filtered[@]}"')
    assert [line for line in chosen if not any(one in line for one in wrapped)] == []
