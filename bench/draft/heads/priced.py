"""What a head is worth at given costs: `python -m bench.draft.heads.priced [TEXT ...]`."""

from __future__ import annotations

import argparse

from bench.draft import trace
from bench.draft.bigrams import FILE
from bench.draft.heads.played import Costs, play, texts_of, whole_bigrams
from bench.support import machine, report

_HEADER = [
    "text",
    "at a time",
    "without upkeep",
    "with upkeep",
    "steps that ask",
    "rows asked/step",
]
_HEADER += ["tokens/step without", "with"]
_TEXTS = ("chat", "human_eval_chat", "human_eval_raw", "questions", "edits")
_AT_A_TIME = (1, 8)


def main() -> None:
    """Plays the traces of which the head's answers are recorded; writes `bench/results/draft/head_priced.*`."""
    parser = argparse.ArgumentParser(prog="python -m bench.draft.heads.priced", description=__doc__)
    parser.add_argument("texts", nargs="*", default=_TEXTS, help="traces [those with answers]")
    parser.add_argument("--split", default="report", help="report, choose or tune [report]")
    args = parser.parse_args()
    rows, data = [], {}
    for name in args.texts:
        for at_a_time in _AT_A_TIME:
            one = _measure(name, args.split, at_a_time)
            data[f"{name}, {at_a_time}"] = one
            rows.append(_row(name, at_a_time, one))
    costs = Costs()
    notes = [
        "Time of all requests with drafts from text alone over that with the head that ships too, by the engine that"
        " serves, at fixed costs: no machine is measured. A forward of 1, 8 and 16 rows takes"
        f" {costs.forward(1)}, {costs.forward(8)} and {costs.forward(16)} ms, a first level of up to 8 rows"
        f" {costs.first_ms[0]} to {costs.first_ms[1]} ms, a later one {costs.later_ms[0]} to {costs.later_ms[1]}, and"
        f" upkeep {100 * costs.upkeep} % of every forward, asked or not. Nothing is learned from other answers."
    ]
    report.write(
        "draft/head_priced" if args.split == "report" else f"draft/head_priced_{args.split}",
        "What a head is worth at given costs",
        machine.facts(),
        _HEADER,
        rows,
        data,
        notes,
        command="python -m bench.draft.heads.priced",
    )


def _measure(name: str, split: str, at_a_time: int) -> dict[str, float]:
    texts = texts_of(name, split)
    bigrams = whole_bigrams(trace.folder(split) / FILE)
    without = play(texts, head=False, at_a_time=at_a_time, bigrams=bigrams)
    free = play(texts, head=True, at_a_time=at_a_time, costs=Costs(upkeep=0.0), bigrams=bigrams)
    beside = play(texts, head=True, at_a_time=at_a_time, bigrams=bigrams)
    return {
        "ratio_without_upkeep": without.milliseconds / free.milliseconds,
        "ratio": without.milliseconds / beside.milliseconds,
        "asked": beside.asked,
        "rows_per_step": beside.rows / len(beside.steps),
        "tokens_per_step_without": without.tokens / len(without.steps),
        "tokens_per_step": beside.tokens / len(beside.steps),
    }


def _row(name: str, at_a_time: int, one: dict[str, float]) -> list[str]:
    return [
        name,
        str(at_a_time),
        f"{one['ratio_without_upkeep']:.3f}x",
        f"{one['ratio']:.3f}x",
        f"{100 * one['asked']:.0f} %",
        f"{one['rows_per_step']:.2f}",
        f"{one['tokens_per_step_without']:.2f}",
        f"{one['tokens_per_step']:.2f}",
    ]


if __name__ == "__main__":
    main()
