"""Compares drafts from recorded answers of a head: `python -m bench draft --head [FILE ...]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

from bench.draft import trace
from bench.draft.bigrams import read_bigrams
from bench.draft.heads.contenders import BlockTree, HeadChain, HeadTree, NgramElse
from bench.draft.heads.right import Right, count_right
from bench.draft.ours import HeadUse, replay_ours
from bench.draft.recording.head_file import ENDING, HeadAnswers, read_answers
from bench.draft.rivals.base import Rival, Setup
from bench.draft.rivals.lookup import Lookup
from bench.draft.rivals.majority import Majority
from bench.draft.trace import TRACES, Request
from bench.draft.walk import replay
from bench.support import machine, report

__all__ = [
    "ALONE",
    "CONTENDERS",
    "MIXED",
    "OF_BLOCKS",
    "TEXT",
    "WIDE",
    "calibrations",
    "compare",
    "run",
]

NODES = 16
TEXT = "text, recycling and bigrams"
ALONE = "the head alone"
MIXED = "both in one tree"
WIDE = "both in one tree, top 8"
FLOORS = {"chat": 1.28, "human_eval_chat": 1.10, "human_eval_raw": 1.06, "questions": 1.03}
"""What both must accept over text, recycling and bigrams."""
RIGHT_FLOORS = {"chat": (0.38, 0.28, 0.25)}
"""How often the head must be right by level, where it was right at all levels before."""
BEST_FLOORS = {
    "chat": 1.02,
    "human_eval_chat": 1.02,
    "human_eval_raw": 1.02,
    "questions": 1.02,
    "edits": 1.0,
}
"""What both must accept over the best of the others that compute no more draft rows."""
DECILE_FLOORS = (0.8, 1.25)
"""What may come of what is expected, in each decile of expectations."""
_LEAST_TRIALS = 100
_OURS: tuple[tuple[str, HeadUse, int], ...] = (
    (TEXT, "off", 4),
    (ALONE, "only", 4),
    (MIXED, "on", 4),
    (WIDE, "on", 8),
)
_HEADER = ["trace", "drafts from", "accepted/step", "over text", "drafted/step", "accepted/drafted"]
Make = Callable[[Setup, list[HeadAnswers]], Rival]


def _ngrams(setup: Setup) -> Rival:
    return Lookup(setup, longest=8, latest=True, length=None)


CONTENDERS: dict[str, Make] = {
    "EAGLE-2's tree, 5 levels, top 8": HeadTree,
    "EAGLE-2's tree, 5 levels, top 4": partial(HeadTree, breadth=4),
    "chain of 5": HeadChain,
    "chain of 3": partial(HeadChain, levels=3),
    "prompt lookup, else chain of 5": lambda setup, head: NgramElse(
        _ngrams(setup), HeadChain(setup, head)
    ),
    "prompt lookup, else EAGLE-2's tree": lambda setup, head: NgramElse(
        _ngrams(setup), HeadTree(setup, head)
    ),
    "vLLM's suffix rule, else chain of 5": lambda setup, head: NgramElse(
        Majority(setup), HeadChain(setup, head)
    ),
    "vLLM's suffix rule, else EAGLE-2's tree": lambda setup, head: NgramElse(
        Majority(setup), HeadTree(setup, head)
    ),
    "vLLM's suffix rule, else EAGLE-2's tree, top 4": lambda setup, head: NgramElse(
        Majority(setup), HeadTree(setup, head, breadth=4)
    ),
}
_TOP_8 = {
    "EAGLE-2's tree, 5 levels, top 8",
    "prompt lookup, else EAGLE-2's tree",
    "vLLM's suffix rule, else EAGLE-2's tree",
}
"""Those that compute up to 33 draft rows a step; other levels have four rows at most, which makes 17."""

OF_BLOCKS: dict[str, Make] = {
    "DDTree, 5 levels": BlockTree,
    "prompt lookup, else DDTree": lambda setup, head: NgramElse(
        _ngrams(setup), BlockTree(setup, head)
    ),
    "vLLM's suffix rule, else DDTree": lambda setup, head: NgramElse(
        Majority(setup), BlockTree(setup, head)
    ),
}
"""Those that need answers by depth alone, as `dflash` gives them."""


def run(files: Sequence[Path]) -> None:
    """Compares on the trace of each file of answers, and writes `bench/results/draft/heads.*`.

    Raises:
        ValueError: A file belongs to no trace that is reported.
    """
    trace.verify()
    results: dict[str, dict[str, dict[str, Any]]] = {}
    right: dict[str, Right] = {}
    heads = set()
    for path in files:
        name = path.name.removesuffix(ENDING)
        source = TRACES / f"{name}.jsonl.xz"
        header, answers = read_answers(path, source)
        heads.add(f"{header['drafter']} ({header['kind']} {header['drafter_hash']})")
        requests = trace.read(source)
        right[name] = count_right(answers, [one.output_ids for one in requests])
        results[name] = compare(requests, answers, header["kind"])
    notes = [
        f"Accepted of drafted tokens per step at {NODES} draft nodes at most, each request alone, teacher-forced on"
        f" frozen traces, with recorded answers of {', '.join(sorted(heads))}. Ours ask in every step for 5 levels of up to"
        " 4 nodes that are expected to add 0.02 tokens. Answers are known along the recorded output alone. Elsewhere the head"
        " is taken to be as sure as there, in all rows, so that wrong paths compete for nodes.",
        "",
        *calibrations(results),
        "",
        "Its likeliest token is the one that came, by level, of the places where it was right at all levels before:",
        "",
        *(_shares(name, one) for name, one in right.items()),
        "",
        "Over the best of the others that computes no more draft rows, which are 17 a step at most, 33 with top 8:",
        "",
        *(_over_best(name, found) for name, found in results.items()),
        "",
    ]
    report.write(
        "draft/heads",
        "Drafting from a head's answers",
        machine.facts(),
        _HEADER,
        [row for name, found in results.items() for row in _rows(name, found)],
        results | {"right": {name: asdict(one) for name, one in right.items()}},
        notes,
        command="python -m bench draft --head",
    )


def compare(
    requests: list[Request], answers: list[HeadAnswers], kind: str
) -> dict[str, dict[str, Any]]:
    """The reports of all that draft from the answers of a kind of head, by name."""
    bigrams = read_bigrams()
    found = {
        name: replay_ours(
            requests, nodes=NODES, bigrams=bigrams, head=head, head_rows=rows, answers=answers
        )
        for name, head, rows in _OURS
    }
    setup = Setup(nodes=NODES)
    for name, make in (CONTENDERS | (OF_BLOCKS if kind == "dflash" else {})).items():
        found[name] = replay(make(setup, answers), requests, setup).report()
    return found


def _rows(name: str, found: dict[str, dict[str, Any]]) -> list[list[str]]:
    text = found[TEXT]["accepted_per_step"]
    rows = []
    for drafter, one in found.items():
        accepted = one["accepted_per_step"]
        over = f"{accepted / text:.3f}x"
        if drafter == MIXED and name in FLOORS:
            over += f" (floor {FLOORS[name]:.2f}x)"
        drafted, ratio = one["drafted_per_step"], one["accepted_per_drafted"]
        rows.append([name, drafter, f"{accepted:.3f}", over, f"{drafted:.2f}", f"{ratio or 0:.3f}"])
    return rows


def _over_best(name: str, found: dict[str, dict[str, Any]]) -> str:
    others = {one: report["accepted_per_step"] for one, report in found.items()}
    ours = {one: others.pop(one) for one in (MIXED, WIDE)}
    of_17 = max(accepted for one, accepted in others.items() if one not in _TOP_8)
    floor = f" (floor {BEST_FLOORS[name]:.2f}x)" if name in BEST_FLOORS else ""
    ratios = (ours[MIXED] / of_17, ours[WIDE] / max(others.values()))
    return f"- {name}: {ratios[0]:.3f}x{floor}, with top 8 {ratios[1]:.3f}x"


def calibrations(results: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Actual over expected acceptance of both in one tree, overall and by decile of 100 trials or more: of each text, and
    of all together."""
    bins = {name: found[MIXED]["calibration"] for name, found in results.items()}
    whole = {name: found[MIXED]["calibration_overall"] for name, found in results.items()}
    if len(results) > 1:
        bins["all together"] = [_sum(of_one) for of_one in zip(*bins.values(), strict=True)]
        whole["all together"] = _sum(whole.values())
    return [
        f"- {name}: came / expected {whole[name]['actual'] / whole[name]['expected']:.3f}, by decile"
        f" {' '.join(map(_decile, bins[name]))}"
        for name in bins
    ]


def _sum(bins: Iterable[dict[str, float]]) -> dict[str, float]:
    found = list(bins)
    return {of: sum(one[of] for one in found) for of in ("trials", "expected", "actual")}


def _decile(bin: dict[str, float]) -> str:
    """What came over what was expected; with its 95 % interval where it is outside of what is allowed."""
    trials, expected = bin["trials"], bin["expected"]
    if trials < _LEAST_TRIALS:
        return "-"
    ratio = bin["actual"] / expected
    low, high = DECILE_FLOORS
    if low <= ratio <= high:
        return f"{ratio:.2f}"
    # What is drawn `trials` times with the mean chance that was expected.
    error = 1.96 * sqrt((1 - expected / trials) / expected)
    return f"{ratio:.2f} ({ratio - error:.2f} to {ratio + error:.2f})"


def _shares(name: str, right: Right) -> str:
    floors = RIGHT_FLOORS.get(name, ())
    shares = [
        f"{share:.3f}" + (f" (floor {floors[level]:.2f})" if level < len(floors) else "")
        for level, share in enumerate(right.shares)
    ]
    return f"- {name}: {' '.join(shares) or '-'}"
