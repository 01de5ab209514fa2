"""The comparison of what is drafted from a head's answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.draft import trace
from bench.draft.heads import table
from bench.draft.heads.table import ALONE, CONTENDERS, MIXED, OF_BLOCKS, TEXT, WIDE
from bench.draft.recording.head_file import ENDING, HeadAnswers, write_answers
from bench.draft.trace import TRACES, Request
from bench.support import report
from tests.bench.draft.heads.perfect import perfect_answers

REQUESTS = [Request([1, 2, 3], [*range(100, 160)]), Request([4, 5], [*range(300, 340)])]


def test_every_contender_drafts_from_the_same_answers() -> None:
    answers = [perfect_answers(one.output_ids) for one in REQUESTS]
    found = table.compare(REQUESTS, answers, "eagle3")
    assert list(found) == [TEXT, ALONE, MIXED, WIDE, *CONTENDERS]
    # Answers by depth alone are one kind's.
    of_blocks = table.compare(REQUESTS, answers, "dflash")
    assert list(of_blocks) == [TEXT, ALONE, MIXED, WIDE, *CONTENDERS, *OF_BLOCKS]
    assert 4.4 < of_blocks["DDTree, 5 levels"]["accepted_per_step"] <= 5
    assert found[TEXT]["accepted_per_step"] < 0.2
    for name, levels in ((ALONE, 5), (MIXED, 5), ("chain of 5", 5), ("chain of 3", 3)):
        # A step that begins near the end of an answer has less to accept.
        assert levels - 0.6 < found[name]["accepted_per_step"] <= levels, name
    assert all(one["drafted_per_step"] <= table.NODES for one in found.values())


def test_deciles_outside_of_what_is_allowed_have_an_interval_and_all_texts_are_added_up() -> None:
    def found(trials: int, expected: float, actual: float) -> dict[str, dict[str, object]]:
        of_one = {"trials": trials, "expected": expected, "actual": actual}
        few = {"trials": 99, "expected": 50.0, "actual": 10}
        return {MIXED: {"calibration": [of_one, few], "calibration_overall": of_one}}

    lines = table.calibrations({"chat": found(200, 100.0, 130), "edits": found(400, 100.0, 90)})
    assert lines == [
        "- chat: came / expected 1.300, by decile 1.30 (1.16 to 1.44) -",
        "- edits: came / expected 0.900, by decile 0.90 -",
        "- all together: came / expected 1.100, by decile 1.10 0.20 (0.06 to 0.34)",
    ]
    assert len(table.calibrations({"chat": found(200, 100.0, 100)})) == 1


def test_results_name_the_head_and_the_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    source = TRACES / "warm.jsonl.xz"
    answers: list[HeadAnswers] = [[[] for _ in one.output_ids] for one in trace.read(source)]
    path = tmp_path / f"warm{ENDING}"
    facts = {"drafter": "some-head", "kind": "eagle3", "drafter_hash": "00ff"}
    write_answers(path, source, facts, answers)
    table.run([path])
    text = (tmp_path / "draft" / "heads.md").read_text()
    assert (
        "some-head (eagle3 00ff)" in text and "warm: came / expected" in text and "- warm: " in text
    )
    found = json.loads((tmp_path / "draft" / "heads.json").read_text())["results"]["warm"]
    # Without an answer, both are what text is alone.
    assert found[MIXED]["accepted_per_step"] == found[TEXT]["accepted_per_step"]
    with pytest.raises(ValueError, match="holds no answers for"):
        path.rename(tmp_path / f"maths{ENDING}")
        table.run([tmp_path / f"maths{ENDING}"])
