"""The house's figures, counted in a small checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.house_figures import House, main

FILES = {
    "README.md": "one two three\n",
    "rust/engine/src/lib.rs": "mod budget;\nmod scheduler;\nmod rank;\n#[cfg(test)]\nmod audit;\n",
    "rust/engine/src/audit.rs": "fn checks(max_step_ms: f32) {}\n" * 500,
    "rust/engine/src/scheduler.rs": (
        "use crate::rank::Rank;\n"
        "pub struct Scheduler {\n    /// Some.\n    pub(crate) max_step_ms: f32,\n    rank: Rank,\n}\n"
        "impl Scheduler {}\n"
        "#[cfg(test)]\nmod tests {\n    const MEMORY: usize = 256 << 20;\n}\n"
    ),
    "rust/engine/src/rank.rs": "use crate::scheduler::Scheduler;\npub struct Rank;\nimpl Scheduler {}\n",
    "rust/engine/src/budget.rs": "pub const MEMORY: usize = 256 << 20;\n" * 401,
    "rust/proto/src/generated/wire.rs": "pub max_step_ms: f32,\n",
    "rust/python/stubs/engine.pyi": "class Engine:\n    def step(self) -> None: ...\n",
    "python/spectrie/__init__.py": "",
    "python/spectrie/flags.py": 'FLAG = "--max-step-ms"\n',
    "python/spectrie/table.py": "# @generated from the table of options\nmax_step_ms: float\n",
    "python/spectrie/worker/request.py": "a = 1\nb = 2\n",
    "tests/test_flags.py": "max_step_ms = 1\n",
}


@pytest.fixture
def house(tmp_path: Path) -> House:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder in ("bench", "kernels/spectrie_kernels"):
        (tmp_path / folder).mkdir(parents=True)
    return House(tmp_path)


def test_an_option_counts_where_it_is_written_by_hand(house: House) -> None:
    fields = house.root / "python/spectrie/model/config/fields.py"
    fields.parent.mkdir(parents=True)
    fields.write_text('FIELDS = "max_step_ms, of others"\n')
    assert house.option_files("max_step_ms") == 2
    assert house.draft_memory_defaults() == 1


def test_tests_and_generated_code_are_no_lines(house: House) -> None:
    assert house.source_lines() == 5 + 7 + 3 + 401 + 1 + 2 + 2
    assert house.request_lines() == (2, "worker/request.py")


def test_shape_of_the_scheduler_and_of_the_tree(house: House) -> None:
    assert house.scheduler() == "2; 2"
    assert house.circles() == "1 (0 across rooms)"
    assert house.long_files() == 2
    assert house.largest_folder().startswith("5 (5 files, rust/engine/src")
    assert house.readme_words() == 3


def test_each_checkout_gets_a_column(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(house.root), str(house.root)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert all(line.count("|") == 4 for line in lines)


@pytest.mark.parametrize(("given", "code"), [("--help", 0), ("no-such-folder", 2)])
def test_a_wrong_argument_gets_an_answer(
    given: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([given])
    assert ended.value.code == code
    shown = capsys.readouterr()
    assert "CHECKOUT" in shown.out or f"{given} is no checkout of Spectrie" in shown.err
