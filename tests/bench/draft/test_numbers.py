"""The table shows what the replays counted, losses too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.draft import table
from bench.draft.conditions import CONDITIONS
from bench.draft.figure import draw
from bench.draft.numbers import (
    Number,
    best_rival,
    interpolate,
    numbers,
    worst_calibration,
)
from bench.draft.run import OURS, OURS_PLAIN, OURS_WITHOUT_BIGRAMS, Results, has_prompt_rows, priced
from bench.draft.trace import Request
from bench.support import report


def _report(accepted: float, drafted: float, **more: Any) -> dict[str, Any]:
    return {
        "accepted_per_step": accepted,
        "drafted_per_step": drafted,
        "draft_us_p50": 5.0,
        "draft_us_p99": 9.0,
    } | more


def _results() -> Results:
    """Ours twice as good as the others, the chain of Arctic at 2 drafted."""
    results: Results = {}
    for condition in CONDITIONS:
        reports = {
            OURS: _report(2.0, 16.0),
            priced(0.5): _report(1.0, 1.0),
            priced(0.1): _report(1.5, 3.0),
            "Arctic chain, factor 1, min 0.1": _report(0.5, 2.0),
            "Arctic tree, factor 4, min 0.1": _report(1.0, 8.0),
            "Token Recycling": {"absent": "no top-k"},
        }
        results[condition.name] = {name: dict(reports) for name in condition.traces}
    return results


def test_best_rival_is_the_best_of_those_that_ran() -> None:
    reports = _results()["alone"]["code"]
    assert best_rival(reports) == ("Arctic tree, factor 4, min 0.1", 1.0)
    assert best_rival({OURS: _report(1, 1), "x": {"absent": "why"}}) == ("", 0.0)


def test_figures_are_compared_with_floor_and_goal() -> None:
    found = {line.what: line for line in numbers(_results(), {"insert_bytes_per_token": 40.0})}
    assert found["code, own text only"].value == 2.0
    assert found["code, own text only"].verdict == "goal met"
    # Between 1.0 at 1 drafted and 1.5 at 3 drafted lies 1.25: 2.5 times Arctic's 0.5.
    assert found["with a corpus, at Arctic's ~3 drafted"].value == pytest.approx(2.5)
    assert found["edits with prediction, cold"].verdict == "missed"
    assert found["bytes per stored token"].verdict == "floor met"
    assert found["open a 10M-token snapshot (s)"].verdict == "not measured"
    assert found["open a 10M-token snapshot (s)"].cells()[3] == ""


def test_equal_rows_are_read_off_the_curve_of_what_drafts_from_text_alone() -> None:
    results = _results()
    reports = results["alone"]["maths"]
    reports["Token Recycling"] = _report(9.0, 16.0)
    reports[OURS_PLAIN] = _report(1.4, 10.0)
    reports[priced(0.1, OURS_PLAIN)] = _report(1.0, 6.0)
    (line,) = [one for one in numbers(results, {}) if one.what.startswith("maths, text only")]
    # Half way between 1.0 of 6 and 1.4 of 10 drafted, beside Arctic's 1.0 of 8.
    assert line.value == pytest.approx(1.2)
    assert line.verdict == "goal met"


def test_lines_of_all_sources_show_text_alone_beside_the_best_text_rival() -> None:
    results = _results()
    reports = results["online"]["routing"]
    reports[OURS_PLAIN] = _report(1.4, 10.0)
    reports[priced(0.1, OURS_PLAIN)] = _report(1.0, 6.0)
    found = {line.what: line for line in numbers(results, {})}
    cell = "1.2x: 1.200 to 1.000 of 8.0"
    assert found["routing, online"].equal == cell
    assert found["routing, online"].cells()[6] == cell
    # A rival that reads logits is no rival of text; then the cell names who is.
    reports["Token Recycling"] = _report(9.0, 16.0)
    found = {line.what: line for line in numbers(results, {})}
    assert found["routing, online"].equal == f"{cell} Arctic tree, factor 4, min 0.1"


def test_a_rival_that_drafts_more_than_ours_meets_the_end_of_our_curve() -> None:
    results = _results()
    results["alone"]["code"]["Arctic tree, factor 4, min 0.1"] = _report(1.6, 17.0)
    (line,) = [one for one in numbers(results, {}) if one.what.startswith("code, text only")]
    assert line.value == pytest.approx(2.0 / 1.6)


def test_a_part_of_the_sources_is_compared_at_as_many_drafted() -> None:
    results = _results()
    reports = results["alone"]["warm"]
    reports[OURS_WITHOUT_BIGRAMS] = _report(1.8, 3.0)
    (line,) = [one for one in numbers(results, {}) if one.what.startswith("all sources over")]
    assert line.value == pytest.approx(1.5 / 1.8)
    assert (line.ours, line.verdict) == ("warm, without bigrams, at 3.0 drafted", "missed")
    # In every condition.
    results["online"]["routing"][OURS_WITHOUT_BIGRAMS] = _report(1.9, 3.0)
    (line,) = [one for one in numbers(results, {}) if one.what.startswith("all sources over")]
    assert line.ours == "routing (online), without bigrams, at 3.0 drafted"
    # Also where a part of them drafts less at a price.
    reports[priced(0.2, OURS_WITHOUT_BIGRAMS)] = _report(1.7, 2.0)
    (line,) = [one for one in numbers(results, {}) if one.what.startswith("all sources over")]
    assert line.value == pytest.approx(1.25 / 1.7)


def test_share_lost_to_distractors_is_a_share_of_the_gain() -> None:
    results = _results()
    results["no_corpus"]["code"][OURS] = _report(1.0, 16.0)
    results["distractors"]["code"][OURS] = _report(1.8, 16.0)
    lines = numbers(results, {})
    (line,) = [line for line in lines if line.what.startswith("share of the corpus")]
    assert line.value == pytest.approx(0.2)
    assert line.verdict == "missed"


def test_worst_calibration_leaves_out_small_deciles() -> None:
    results = _results()
    results["alone"]["code"][OURS]["calibration_overall"] = {
        "trials": 5000,
        "expected": 110.0,
        "actual": 100,
    }
    results["alone"]["code"][OURS]["calibration"] = [
        {"trials": 999, "expected": 9.0, "actual": 1},
        {"trials": 1000, "expected": 50.0, "actual": 100},
        {"trials": 4000, "expected": 120.0, "actual": 100},
    ]
    overall, decile = worst_calibration(results)
    assert overall == pytest.approx(1.1)
    assert decile == pytest.approx(0.5)


def test_verdicts_turn_where_smaller_is_better() -> None:
    assert Number("a", 3, 2, 2.5, smaller=True).verdict == "floor met"
    assert Number("a", 3, 2, 3.5, smaller=True).verdict == "missed"
    assert Number("a", 3, 2, 1.0, smaller=True).verdict == "goal met"
    assert Number("a", 3, None, 9.0).verdict == "floor met"


def test_line_is_followed_only_between_its_ends() -> None:
    assert interpolate([(4, 2.0), (0, 1.0)], 1) == pytest.approx(1.25)
    assert interpolate([(1, 1.0), (4, 2.0)], 5) is None


def test_earlier_figures_stand_beside_the_last_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    (tmp_path / "draft").mkdir()
    old = {
        "alone": {
            "chat": {
                OURS: _report(1.0, 15.0),
                "spectrie, nothing of the model's": _report(0.5, 9.0),
            }
        }
    }
    for name, commit, replays in (
        ("draft/draft.json", "new", _results()),
        ("old.json", "old", old),
    ):
        content = {"machine": {"commit": commit}, "results": {"replays": replays}}
        (tmp_path / name).write_text(json.dumps(content))
    table.beside(tmp_path / "old.json")
    text = (tmp_path / "draft/before.md").read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if "|" in line
    ]
    assert ["chat: each request alone", OURS, "1.000 of 15.0", "2.000 of 16.0"] in rows
    # A trace that is new has nothing before, and no rivals.
    maths = [row for row in rows if row[0] == "maths: each request alone"]
    assert maths == [["maths: each request alone", OURS, "", "2.000 of 16.0"]]
    assert "Before: commit old" in text and "After: commit new" in text


def test_traces_that_know_answers_inside_of_prompts_are_told_from_others() -> None:
    after = Request([1, 2, 3], [4], topk=[([], []), ([], []), ([4], [0.5]), ([5], [0.5])])
    inside = Request([1, 2, 3], [4], topk=[([2], [0.5]), ([], []), ([4], [0.5]), ([5], [0.5])])
    assert not has_prompt_rows([after, Request([1, 2], [3])])
    assert has_prompt_rows([after, inside])


def test_table_and_figure_hold_every_contender(tmp_path: Path) -> None:
    results = _results()
    facts = {"cpu": "c", "cpu_model": "m", "cores": 2, "commit": "0", "date": "d"}
    text = table.everything(results, facts)
    assert "Arctic tree, factor 4, min 0.1" in text
    assert "Absent somewhere: Token Recycling (no top-k)." in text
    draw(results, tmp_path / "a.svg")
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text())
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert f"{OURS}: 2.000 of 16.00" in titles
