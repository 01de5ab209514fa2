"""A visit without a device: the same code, all of it, and faults that end nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import visit
from bench.gpu.check import Check
from bench.gpu.stages import REQUIREMENTS, STAGES, Stage

ROOT = Path(__file__).resolve().parents[3]
TIMED = ("kernels", "steps")
MARK = "@pytest.mark." + "gpu"
PLANTED = f"""
import os
import pytest

{MARK}
@pytest.mark.parametrize("size", [1, 2])
def test_planted_fault(size):
    assert size == 0, f"planted at {{size}}"

{MARK}
def test_planted_end():
    os._exit(9)

{MARK}
def test_after_the_end():
    pass

def test_of_no_gpu():
    assert False
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd="/",
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


class Dry:
    """A stage that was run without a device: what it wrote, printed and returned."""

    def __init__(self, process: subprocess.Popen[str], out: Path) -> None:
        self.printed, self.errors = process.communicate()
        self.code = process.returncode
        self.content: dict[str, Any] = json.loads(
            (out / "gpu-dry.json").read_text(encoding="utf-8")
        )
        (stage,) = self.content["stages"]
        self.name, self.commit = stage["stage"], stage["commit"]
        self.rows: list[dict[str, Any]] = stage["rows"]


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Dry]]:
    """The stages that tell whether everything runs, and whether answers are right."""
    yield from run_dry(tmp_path_factory.mktemp("dry"), ("smoke", "end_to_end"))


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Dry]]:
    """The stages that measure: their checks have tests of their own."""
    yield from run_dry(tmp_path_factory.mktemp("timed"), TIMED)


def run_dry(folder: Path, stages: Sequence[str]) -> Iterator[dict[str, Dry]]:
    """Stages side by side: each computes on one core most of the time."""
    planted, faults = folder / "test_planted.py", folder / "test_faults.py"
    planted.write_text(f"import pytest\n{MARK}\ndef test_it(): pass\n", encoding="utf-8")
    faults.write_text(PLANTED, encoding="utf-8")
    script = str(ROOT / "bench" / "gpu" / "visit.py")
    processes = {}
    for stage in stages:
        tests = [ROOT / "kernels" / "tests", faults] if stage == "smoke" else [planted]
        out = ["--out", str(folder / stage), "--commit", "abc", "--tests", *map(str, tests)]
        processes[stage] = subprocess.Popen(
            [sys.executable, script, stage, "--dry", *out],
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        yield {stage: Dry(process, folder / stage) for stage, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@pytest.mark.timeout(1800)
def test_a_dry_run_lists_every_fault_and_runs_all_the_rest(dry: dict[str, Dry]) -> None:
    smoke = dry["smoke"]
    assert smoke.code == 1, smoke.errors
    content = smoke.content
    assert (smoke.name, smoke.commit) == ("smoke", "abc")
    assert content["device"]["name"] == "dry"
    assert content["device"]["copy_bytes_per_second"] > 0
    assert content["device"]["matrix_flops_per_second"] > 0
    assert smoke.printed.endswith("dry: no device, so nothing above is a measurement\n")

    rows = smoke.rows
    for row in rows:
        assert set(row) - {"error"} == {"check", "name", "state", "seconds", "values"}
        assert ("error" in row) == (row["state"] != "ok")
    faults = [row for row in rows if row["state"] == "fault"]
    assert [row["name"].rpartition("::")[2] for row in faults] == [
        "test_planted_fault",
        "test_planted_end",
    ]
    assert "planted at 1" in faults[0]["error"]
    assert "code 9" in faults[1]["error"]
    assert all(row["error"] in smoke.printed for row in faults)

    counts = Counter((row["check"], row["state"]) for row in rows)
    assert counts["requirements", "ok"] == len(REQUIREMENTS)
    assert counts["device", "ok"] == 3
    assert counts["tests", "ok"] == 3 + 1
    # Those that only a device can run are in the list too.
    assert counts["tests", "skipped"] > 0
    assert counts["answers", "ok"] == 6
    kernels = {row["name"].split()[0] for row in rows if row["check"] == "forms"}
    assert kernels == {
        "part_kernel",
        "combine_kernel",
        "prompt_kernel",
        "_linear_kernel",
        "_add_norm_kernel",
        *(f"_{step}_kernel" for step in ("choose", "group", "expert_linear", "add_experts")),
        *(f"_{step}_kernel" for step in ("copy", "adjust", "scale", "noise", "pick")),
        *(f"_{step}_kernel" for step in ("moments", "narrow", "drop")),
        "_chunk_argmax_kernel",
        "_row_argmax_kernel",
        "_verify_greedy_kernel",
        *(f"_{step}_kernel" for step in ("unpack", "take_drawn", "gather_rows", "lift_rows")),
        *(f"_{step}_kernel" for step in ("move_slots", "compact_slots")),
        *(f"_{step}_kernel" for step in ("add", "rotate_write", "gate")),
        "_chunk_top_k_kernel",
        "_row_top_k_kernel",
        "_token_logits_kernel",
        "_draft_roots_kernel",
        "_draft_beams_kernel",
        "_root_work_kernel",
    }
    answers = {row["name"]: row["values"] for row in rows if row["check"] == "answers"}
    off, on = (answers[f"tiny float32, speculation {name}"] for name in ("off", "on"))
    assert off["drafted_tokens"] == 0
    assert on["accepted_tokens"] > 0
    assert on["verify_steps"] < off["verify_steps"]
    assert "/exact/" in on["fingerprint"]
    # The clock counts its readings: no time of this machine is taken for a measurement.
    assert {row["seconds"] for row in rows if row["check"] == "tests"} <= {0.0, 0.001}


def check_values(stage: str, found: Dry) -> None:
    """It has no faults, and values for every check."""
    assert found.code == 0, found.printed + found.errors
    assert found.name == stage
    checks = {row["check"] for row in found.rows if row["state"] == "ok" and row["values"]}
    assert checks == {check.name for check in STAGES[stage].checks}


@pytest.mark.timeout(1800)
def test_answers_without_a_device_have_no_faults_and_values_for_every_check(
    dry: dict[str, Dry],
) -> None:
    assert set(STAGES) == {*dry, *TIMED}
    check_values("end_to_end", dry["end_to_end"])


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", TIMED)
def test_what_measures_has_no_faults_without_a_device_and_values_for_every_check(
    stage: str, timed: dict[str, Dry]
) -> None:
    check_values(stage, timed[stage])


@pytest.mark.timeout(1800)
def test_every_way_gives_the_same_ids_and_does_what_it_is_named_after(dry: dict[str, Dry]) -> None:
    rows = [row for row in dry["end_to_end"].rows if row["check"] == "answers"]
    found = {row["name"]: row["values"] for row in rows}
    reference = found.pop("alone, not drafted")
    assert reference["answers"] == 6 and reference["drafted_tokens"] == 0
    assert all(one["share"] == 1.0 and one["exact"] for one in found.values()), found
    assert found["together, drafted"]["accepted_tokens"] > 0
    assert found["together, drafted, preempted"]["preemptions"] > 0
    assert found["together, not drafted"]["preemptions"] == 0
    rows = [row for row in dry["end_to_end"].rows if row["check"] == "answers beside drafters"]
    beside = {row["name"]: row["values"] for row in rows}
    assert beside["together, both, preempted"]["preemptions"] > 0


def test_what_ran_without_a_device_is_no_result() -> None:
    local = ROOT / "bench" / "results" / "local" / "gpu-dry.json"
    ignored = subprocess.run(["git", "check-ignore", "-q", str(local)], cwd=ROOT, check=False)
    assert ignored.returncode in (0, 128)  # 128: no repository
    for file in (ROOT / "bench" / "results").glob("gpu-*.json"):
        device = json.loads(file.read_text(encoding="utf-8"))["device"]
        assert device.get("name", "dry") != "dry", file
        assert device["copy_bytes_per_second"] > 1e11, file


def test_the_command_needs_no_library() -> None:
    blocked = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'numpy', 'triton', 'pytest']))"
    )
    code = f"{blocked}; from bench.gpu.visit import main; main(['--help'])"
    done = run("-c", code, PYTHONPATH=os.pathsep.join(visit.PATHS))
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in STAGES)
    as_module = run("-m", "bench.gpu.visit", "--help", PYTHONPATH=str(ROOT))
    assert as_module.stdout == done.stdout


def test_what_a_machine_lacks_is_a_fault_and_skips_what_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check = Check("kernels", "no.such.module:items", ("json", "none_of_this_name"))
    stage = Stage("about", limit_s=60.0, item_limit_s=1.0, checks=(check,))
    monkeypatch.setattr(visit, "STAGES", {"smoke": stage})
    monkeypatch.setattr(visit, "REQUIREMENTS", ("json", "none_of_this_name", "none.of.this"))
    assert visit.main(["smoke", "--dry", "--out", str(tmp_path), "--commit", "abc"]) == 1
    printed = capsys.readouterr().out
    assert "1 ok, 2 fault, 1 skipped" in printed
    assert "the machine has no none_of_this_name" in printed
    assert "skipped: kernels: all\nneeds none_of_this_name" in printed


def test_modules_are_looked_for_without_being_imported() -> None:
    names = ("xmlrpc.server", "none_of_this_name", "none.of.this")
    sys.modules.pop("xmlrpc.server", None)
    assert visit.lacking(names) == {"none_of_this_name", "none.of.this"}
    assert "xmlrpc.server" not in sys.modules


def test_every_check_of_every_stage_is_there_and_needs_what_is_looked_for() -> None:
    for stage in STAGES.values():
        assert stage.limit_s <= 360
        for check in stage.checks:
            module, _, function = check.items.partition(":")
            file = ROOT / f"{module.replace('.', '/')}.py"
            assert f"def {function}(settings" in file.read_text(encoding="utf-8")
            assert set(check.needs) <= set(REQUIREMENTS)
