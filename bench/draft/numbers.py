"""The figures that drafting is held to: floor, goal, ours, the best rival, verdict."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.draft.run import OURS, OURS_PLAIN, SUBSETS, Results

__all__ = [
    "Number",
    "accepted_of_drafted",
    "best_rival",
    "interpolate",
    "numbers",
    "worst_calibration",
]

Verdict = Literal["goal met", "floor met", "missed", "not measured"]
_LEAST_TRIALS = 1000
_LEAST_DRAFTED = 0.5
"""Tokens per step below which curves are not compared: what is accepted of so few is rounded away."""
_KINDS = (
    ("translation", "translation"),
    ("other languages", "languages"),
    ("maths", "maths"),
    ("summaries", "summaries"),
    ("questions", "questions"),
)
"""Kinds of text and their traces."""
_READS_LOGITS = "Token Recycling"
"""The rival that drafts from more than text."""
_ARCTIC_SHIPPED = "Arctic chain, factor 1, min 0.1"
_ARCTIC_WIDE = "Arctic tree, factor 4, min 0.1"


@dataclass(frozen=True, slots=True)
class Number:
    """One line of the table.

    Attributes:
        what: What was measured.
        floor: The value to reach at least; `goal` likewise.
        goal: None where there is only a floor.
        value: What came out, in the terms of the floor; None if it was not measured.
        ours: What ours did, as shown.
        rival: What the best rival did, as shown.
        equal: Ours from text alone over the best rival that drafts from text, at as many drafted tokens, as
            shown.
        unit: `x` for ratios.
        smaller: Whether smaller is better.
    """

    what: str
    floor: float
    goal: float | None
    value: float | None
    ours: str = ""
    rival: str = ""
    equal: str = ""
    unit: str = ""
    smaller: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether floor and goal are reached."""
        if self.value is None:
            return "not measured"
        sign = -1 if self.smaller else 1
        if self.goal is not None and sign * self.value >= sign * self.goal:
            return "goal met"
        return "floor met" if sign * self.value >= sign * self.floor else "missed"

    def cells(self) -> list[str]:
        """The line's cells, as text."""
        bound = "≤ " if self.smaller else ""
        goal = "" if self.goal is None else f"{bound}{self.goal:g}{self.unit}"
        value = "" if self.value is None else f"{self.value:.3g}{self.unit}"
        if self.value is not None and self.value >= 1000:
            value = f"{self.value:,.0f}"
        floor = f"{bound}{self.floor:g}{self.unit}"
        return [self.what, floor, goal, value, self.ours, self.rival, self.equal, self.verdict]


def numbers(results: Results, memory: dict[str, float]) -> list[Number]:
    """Every line of the table.

    Args:
        results: From `bench.draft.run`.
        memory: Figures of the bench `memory` of spectrie-trie; empty if it did not run.
    """
    return [
        _beside(results, "code, own text only", "alone", "code", 1.06, 1.2),
        _beside(results, "code, with a 1.7M-token corpus", "corpus", "code", 1.2, 1.35),
        _beside(
            results, "HumanEval chat + code corpus", "model_corpus", "human_eval_chat", 1.3, 1.6
        ),
        _beside(
            results, "HumanEval raw + code corpus", "model_corpus", "human_eval_raw", 1.33, 1.6
        ),
        _accepted(results, "HumanEval chat, cold", "alone", "human_eval_chat", 1.4, 1.7),
        _accepted(results, "questions over a text, cold", "alone", "questions", 2.0, 2.4),
        _accepted(results, "edits with prediction, cold", "alone", "edits", 2.9, 3.5),
        _accepted(results, "general chat, cold", "alone", "chat", 0.55, 0.9),
        _accepted(results, "routing, online", "online", "routing", 3.9, 4.5),
        _frontier(results, "with a corpus, at Arctic's ~3 drafted", _ARCTIC_SHIPPED, 1.15, 1.35),
        _frontier(results, "with a corpus, at Arctic's ~9 drafted", _ARCTIC_WIDE, 1.25, 1.45),
        _at_rows(results, "code, text only", "alone", "code", 1.15, 1.3),
        _at_rows(results, "code with the corpus, text only", "corpus", "code", 1.25, 1.4),
        *(
            _at_rows(results, f"{what}, text only", "alone", trace, 1.08, 1.2)
            for what, trace in _KINDS
        ),
        _subsets(results),
        *(_calibration_of(results, what, trace) for what, trace in _KINDS),
        _distractors(results),
        *_calibration(results),
        _draft_time(results, "draft p50, own text (us)", "alone", 8, 4),
        _draft_time(results, "draft p50, with corpus (us)", "corpus", 20, 8),
        *_memory(memory),
    ]


def best_rival(reports: dict[str, dict[str, Any]]) -> tuple[str, float]:
    """Name and accepted tokens per step of the best of the others; `("", 0)` if there is none."""
    others = {
        name: report["accepted_per_step"]
        for name, report in reports.items()
        if not name.startswith(OURS) and "absent" not in report
    }
    name = max(others, key=lambda name: others[name], default="")
    return name, others.get(name, 0.0)


def interpolate(points: Sequence[tuple[float, float]], at: float) -> float | None:
    """The height of the line through sorted points at `at`; None outside of them."""
    ordered = sorted(points)
    for (x, y), (right, top) in itertools.pairwise(ordered):
        if x <= at <= right:
            return y if right == x else y + (top - y) * (at - x) / (right - x)
    return None


def worst_calibration(results: Results) -> tuple[float, float]:
    """Expected over actual accepted tokens: overall and per decile, the farthest from 1.

    Each condition and trace counts by itself; deciles of fewer than 1,000 trials are left out.
    """
    overall, deciles = [1.0], [1.0]
    for traces in results.values():
        for reports in traces.values():
            report = reports.get(OURS, {})
            whole = report.get("calibration_overall", {"trials": 0})
            if whole["trials"] >= _LEAST_TRIALS:
                overall.append(_ratio(whole))
            for decile in report.get("calibration", []):
                if decile["trials"] >= _LEAST_TRIALS:
                    deciles.append(_ratio(decile))
    return _farthest(overall), _farthest(deciles)


def _ratio(entry: dict[str, float]) -> float:
    return float("inf") if not entry["actual"] else entry["expected"] / entry["actual"]


def _farthest(ratios: list[float]) -> float:
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio if ratio else float("inf")))


def _of(reports: dict[str, dict[str, Any]], name: str) -> str:
    """Accepted and drafted tokens per step of a contender, and who it is unless it is ours."""
    if not name:
        return ""
    return accepted_of_drafted(reports[name]) + ("" if name == OURS else f" {name}")


def accepted_of_drafted(report: dict[str, Any]) -> str:
    """Accepted and drafted tokens per step, as a table shows them."""
    return f"{report['accepted_per_step']:.3f} of {report['drafted_per_step']:.1f}"


def _beside(
    results: Results, what: str, condition: str, trace: str, floor: float, goal: float
) -> Number:
    reports = results[condition][trace]
    ours = reports[OURS]["accepted_per_step"]
    name, best = best_rival(reports)
    value = ours / best if best else None
    equal = _equal(reports, name)
    return Number(what, floor, goal, value, _of(reports, OURS), _of(reports, name), equal, "x")


def _accepted(
    results: Results, what: str, condition: str, trace: str, floor: float, goal: float
) -> Number:
    reports = results[condition][trace]
    ours = reports[OURS]["accepted_per_step"]
    name, _ = best_rival(reports)
    equal = _equal(reports, name)
    return Number(what, floor, goal, ours, _of(reports, OURS), _of(reports, name), equal)


def _curve(reports: dict[str, dict[str, Any]], ours: str) -> list[tuple[float, float]]:
    """Accepted over drafted tokens per step of one of ours, over its price, from none drafted."""
    points = [
        (report["drafted_per_step"], report["accepted_per_step"])
        for name, report in reports.items()
        if name == ours or name.startswith(f"{ours}, price")
    ]
    return [(0.0, 0.0), *points]


def _at(curve: Sequence[tuple[float, float]], drafted: float) -> float | None:
    """The height of a curve at `drafted`; what drafts more than the curve is compared with its end."""
    return interpolate(curve, min(drafted, max(x for x, _ in curve)))


@dataclass(frozen=True, slots=True)
class _TextAlone:
    """Ours from text alone beside the best rival that drafts from text, where we draft as much as it does."""

    name: str
    accepted: float
    drafted: float
    ours: float | None

    @classmethod
    def of(cls, reports: dict[str, dict[str, Any]]) -> _TextAlone | None:
        """None where no such rival accepted anything."""
        texts = {name: report for name, report in reports.items() if name != _READS_LOGITS}
        name, accepted = best_rival(texts)
        if not accepted:
            return None
        drafted = reports[name]["drafted_per_step"]
        form = OURS_PLAIN if OURS_PLAIN in reports else OURS
        return cls(name, accepted, drafted, _at(_curve(reports, form), drafted))


def _equal(reports: dict[str, dict[str, Any]], best: str) -> str:
    """The cell of a line that compares all our sources; it names the rival unless that is `best`."""
    found = _TextAlone.of(reports)
    if found is None or found.ours is None:
        return ""
    who = "" if found.name == best else f" {found.name}"
    beside = f"{found.ours:.3f} to {found.accepted:.3f} of {found.drafted:.1f}{who}"
    return f"{found.ours / found.accepted:.3g}x: {beside}"


def _at_rows(
    results: Results, what: str, condition: str, trace: str, floor: float, goal: float
) -> Number:
    """Ours over the best rival, both from text alone, at as many drafted tokens as the rival's."""
    what = f"{what}, at the best rival's drafted"
    found = _TextAlone.of(results[condition][trace])
    if found is None:
        return Number(what, floor, goal, None, unit="x")
    shown, value = "", None
    if found.ours is not None:
        shown, value = f"{found.ours:.3f} of {found.drafted:.1f}", found.ours / found.accepted
    theirs = f"{found.accepted:.3f} of {found.drafted:.1f} {found.name}"
    return Number(what, floor, goal, value, shown, theirs, unit="x")


def _subsets(results: Results) -> Number:
    """All sources over some of them at as many drafted tokens and every price, where that is least.

    Ours is read from straight lines between its points, which lie a little below its curve.
    """
    least, where = float("inf"), ""
    places = [
        (trace if condition == "alone" else f"{trace} ({condition})", reports)
        for condition, traces in results.items()
        for trace, reports in traces.items()
    ]
    for place, reports in places:
        curve = _curve(reports, OURS)
        for name in SUBSETS:
            for drafted, accepted in _curve(reports, name):
                ours = _at(curve, drafted)
                if drafted < _LEAST_DRAFTED or not accepted or ours is None:
                    continue
                if ours / accepted < least:
                    part = name.removeprefix(f"{OURS}, ")
                    least, where = ours / accepted, f"{place}, {part}, at {drafted:.1f} drafted"
    what = "all sources over a part of them at equal drafted, least"
    return Number(what, 1.0, None, least if where else None, where, unit="x")


def _calibration_of(results: Results, what: str, trace: str) -> Number:
    whole = results["alone"][trace][OURS].get("calibration_overall", {"trials": 0})
    what = f"calibration off by, {what}"
    if not whole["trials"]:
        return Number(what, 0.07, 0.03, None, smaller=True)
    ratio = _ratio(whole)
    return Number(what, 0.07, 0.03, abs(ratio - 1), f"expected/actual {ratio:.3f}", smaller=True)


def _frontier(results: Results, what: str, rival: str, floor: float, goal: float) -> Number:
    reports = results["corpus"]["code"]
    theirs = reports.get(rival, {"absent": ""})
    if "absent" in theirs:
        return Number(what, floor, goal, None, unit="x")
    accepted, drafted = theirs["accepted_per_step"], theirs["drafted_per_step"]
    ours = interpolate(_curve(reports, OURS), drafted)
    value = ours / accepted if ours and accepted else None
    shown = "" if ours is None else f"{ours:.3f} at {drafted:.1f}"
    return Number(what, floor, goal, value, shown, f"{accepted:.3f} {rival}", unit="x")


def _distractors(results: Results) -> Number:
    def of(condition: str, name: str = OURS) -> float:
        return float(results[condition]["code"].get(name, {}).get("accepted_per_step", 0.0))

    gain = of("corpus") - of("no_corpus")
    lost = (of("corpus") - of("distractors")) / gain if gain > 0 else None
    name, best = best_rival(results["distractors"]["code"])
    shown = f"{of('distractors'):.3f} of {of('corpus'):.3f}, without {of('no_corpus'):.3f}"
    theirs = f"{best:.3f} of {of('corpus', name):.3f} {name}" if name else ""
    what = "share of the corpus's gain lost to four others"
    return Number(what, 0.15, None, lost, shown, theirs, smaller=True)


def _calibration(results: Results) -> list[Number]:
    lines = []
    worst = worst_calibration(results)
    for what, ratio, floor, goal in (
        ("overall", worst[0], 0.1, 0.03),
        ("in deciles of 1,000 trials", worst[1], 0.25, 0.1),
    ):
        away = max(ratio, 1 / ratio) - 1 if ratio else float("inf")
        shown = f"expected/actual {ratio:.3f}"
        lines.append(
            Number(f"calibration off by, {what}, worst", floor, goal, away, shown, smaller=True)
        )
    return lines


def _draft_time(results: Results, what: str, condition: str, floor: float, goal: float) -> Number:
    reports = results[condition]["code"]
    ours = reports[OURS]["draft_us_p50"]
    name, _ = best_rival(reports)
    rival = f"{reports[name]['draft_us_p50']:.1f} {name}" if name else ""
    p99 = reports[OURS]["draft_us_p99"]
    return Number(what, floor, goal, ours, f"p99 {p99:.1f}", rival, smaller=True)


def _memory(memory: dict[str, float]) -> list[Number]:
    lines = []
    for what, key, floor, goal, smaller in (
        ("insert, tokens per second, one core", "insert_tokens_per_second", 1e6, 2e6, False),
        ("bytes per stored token", "insert_bytes_per_token", 64, 32, True),
        ("readers' p99 beside writers, over idle", "draft_p99_ratio", 3, 2, True),
        ("open a 10M-token snapshot (s)", "snapshot_restore_seconds", 2, 0.2, True),
    ):
        lines.append(Number(what, floor, goal, memory.get(key), smaller=smaller))
    return lines
