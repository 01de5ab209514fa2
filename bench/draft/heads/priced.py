"""What a head is worth at given costs: `python -m bench.draft.heads.priced [TEXT ...]`."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from statistics import mean

from bench.draft import trace
from bench.draft.bigrams import FILE
from bench.draft.heads.played import Costs, Played, Text, play, texts_of, whole_bigrams
from bench.draft.heads.waking import waits
from bench.support import machine, report

_HEADER = [
    "text",
    "at a time",
    "without upkeep",
    "least and most",
    "with upkeep",
    "steps that ask",
    "rows asked/step",
]
_HEADER += ["tokens/step without", "with"]
_TEXTS = ("chat", "human_eval_chat", "human_eval_raw", "questions", "edits")
_AT_A_TIME = (1, 8, 32)
_ORDERS = 12
_IN_A_ROW = 4


def main() -> None:
    """Plays the traces of which the head's answers are recorded; writes `bench/results/draft/head_priced.*`."""
    parser = argparse.ArgumentParser(prog="python -m bench.draft.heads.priced", description=__doc__)
    parser.add_argument("texts", nargs="*", default=_TEXTS, help="traces [those with answers]")
    parser.add_argument("--split", default="report", help="report, choose or tune [report]")
    parser.add_argument(
        "--at-a-time", nargs="+", type=int, default=_AT_A_TIME, metavar="N", help="[1 8 32]"
    )
    parser.add_argument(
        "--orders", type=int, default=_ORDERS, help=f"orders of the texts [{_ORDERS}]"
    )
    parser.add_argument(
        "--upkeep",
        type=float,
        default=Costs().upkeep,
        help="of 64 tokens, as a share of a forward of 64 rows [as measured]",
    )
    args = parser.parse_args()
    costs = Costs(upkeep=args.upkeep)
    rows: list[list[str]] = []
    data: dict[str, object] = {}
    for name in args.texts:
        for at_a_time in args.at_a_time:
            one = _measure(name, args.split, at_a_time, args.orders, costs)
            data[f"{name}, {at_a_time}"] = one
            rows.append(_row(name, at_a_time, one))
    notes = [
        "Time of all requests with drafts from text alone over that with the head that ships too, by the engine that"
        " serves, at fixed costs: no machine is measured. A forward of 1, 8 and 16 rows takes"
        f" {costs.forward(1)}, {costs.forward(8)} and {costs.forward(16)} ms, a first level of up to 8 rows"
        f" {costs.first_ms[0]} to {costs.first_ms[1]} ms, a later one {costs.later_ms[0]} to {costs.later_ms[1]}, and"
        f" upkeep of 64 tokens of prompts and outputs {100 * costs.upkeep:g} % of a forward of 64 rows, asked or not;"
        " while the head sleeps, those of four at a time need it, and the last 64 tokens of their prompts."
        " Nothing is learned from other answers.",
        f"Means of engines that answer {args.orders} orders of the texts, {_IN_A_ROW} each, and the least and most without"
        " upkeep: side by side, the longest answers decide how long a batch takes, so that one order alone says little.",
    ]
    data["steps until asked"] = found = waits(args.split)
    shown = ", ".join("never" if one is None else str(one) for one in found)
    notes.append(
        "Where edits become chat within an answer, without upkeep, half of eight steps ask for the first time after so"
        f" many steps, in each mix of three and three texts: {shown}."
    )
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


def orders(texts: Sequence[Text], number: int) -> list[list[Text]]:
    """So many orders of texts, the first that of the trace, up to four behind one another: so that there are enough
    for 32 at a time, and an engine serves for some time."""
    several = [list(texts) for _ in range(number)]
    for seed, order in enumerate(several[1:], start=1):
        random.Random(seed).shuffle(order)
    chains = (several[first : first + _IN_A_ROW] for first in range(0, number, _IN_A_ROW))
    return [[text for order in chain for text in order] for chain in chains]


def _measure(
    name: str, split: str, at_a_time: int, num_orders: int, costs: Costs
) -> dict[str, float]:
    texts = orders(texts_of(name, split), num_orders)
    bigrams = whole_bigrams(trace.folder(split) / FILE)

    def each(*, head: bool, upkeep: float = 0.0) -> list[Played]:
        given = Costs(upkeep=upkeep)
        return [
            play(order, head=head, at_a_time=at_a_time, costs=given, bigrams=bigrams)
            for order in texts
        ]

    without, free = each(head=False), each(head=True)
    beside = each(head=True, upkeep=costs.upkeep) if costs.upkeep else free

    def gains(played: Sequence[Played]) -> list[float]:
        pairs = zip(without, played, strict=True)
        return [alone.milliseconds / both.milliseconds for alone, both in pairs]

    def average(of: Callable[[Played], float], played: Sequence[Played]) -> float:
        return mean(map(of, played))

    alone = gains(free)
    return {
        "ratio_without_upkeep": mean(alone),
        "least_without_upkeep": min(alone),
        "most_without_upkeep": max(alone),
        "ratio": mean(gains(beside)),
        "asked": average(lambda one: one.asked, beside),
        "rows_per_step": average(lambda one: one.rows / len(one.steps), beside),
        "tokens_per_step_without": average(lambda one: one.tokens / len(one.steps), without),
        "tokens_per_step": average(lambda one: one.tokens / len(one.steps), beside),
    }


def _row(name: str, at_a_time: int, one: dict[str, float]) -> list[str]:
    return [
        name,
        str(at_a_time),
        f"{one['ratio_without_upkeep']:.3f}x",
        f"{one['least_without_upkeep']:.3f} to {one['most_without_upkeep']:.3f}",
        f"{one['ratio']:.3f}x",
        f"{100 * one['asked']:.0f} %",
        f"{one['rows_per_step']:.2f}",
        f"{one['tokens_per_step_without']:.2f}",
        f"{one['tokens_per_step']:.2f}",
    ]


if __name__ == "__main__":
    main()
