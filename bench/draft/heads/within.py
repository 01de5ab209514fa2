"""What a drafter that sleeps costs, within one engine: `python -m bench.draft.heads.within [--drafter PATH]`.

Speeds of two engines differ by more than that, whatever they draft: by where their weights lie, and by what each learns
of its machine's times. Here one engine answers requests of namespaces that the drafter may draft for, and of others, in
turn. Of the others it keeps nothing, nor is it asked; all that they pay is that rows of a forward are tapped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.draft.heads.speed import FLOORS, TEXTS, Side, tasks_of
from bench.support import machine, report
from bench.support.pairs import compare

__all__ = ["restricted", "run"]

_SHIPPED = "smollm2-135m-eagle3"
_TEXTS = ("edits", "routing", "random")
_WEIGHTS = "model.safetensors"
_NAMESPACES = 2000
_TIMES = {1: 4, 8: 2, 32: 1}
"""Short samples differ more, so there are more of them."""
_WARM_UP = 4
_HEADER = ["text", "at a time", "with over without", "95 % interval", "floor", "pairs", "levels"]


def main() -> None:
    """Measures, and writes `bench/results/draft/within/head.*`."""
    parser = argparse.ArgumentParser(prog="python -m bench.draft.heads.within", description=__doc__)
    parser.add_argument(
        "--drafter", default=_SHIPPED, help=f"a trained drafter's name or folder [{_SHIPPED}]"
    )
    parser.add_argument("--model", default="smollm2-135m", help="model [smollm2-135m]")
    parser.add_argument(
        "--pairs",
        type=int,
        default=32,
        help="pairs of each text with 32 at a time; twice as many with 8, four times with one [32]",
    )
    parser.add_argument("--max-tokens", type=int, default=96, help="tokens per answer [96]")
    args = parser.parse_args()
    run(args.model, args.drafter, pairs=args.pairs, max_tokens=args.max_tokens)


def run(model: str, drafter: str, *, pairs: int, max_tokens: int) -> None:
    """Measures each text with each number of requests at a time, and writes the results.

    Args:
        model: The model, as `--model` names it.
        drafter: Name or folder of a drafter that `train-head` wrote.
        pairs: Pairs of samples of each with 32 at a time; there are more with fewer.
        max_tokens: Tokens per answer.
    """
    from spectrie import LLM
    from spectrie.model.drafters import shipped_heads

    folder = shipped_heads().get(drafter) or Path(drafter)
    threads = len(os.sched_getaffinity(0))
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        one = restricted(folder, Path(scratch) / folder.name, _names("mine"))
        options: dict[str, Any] = {"threads": threads, "num_pages": 2048, "drafter": str(one)}
        with LLM(model, **options) as llm:
            facts = machine.facts(
                threads=threads,
                dtype=llm.dtype,
                model=model,
                drafter=drafter,
                max_tokens=max_tokens,
            )
            sides = [Side([llm], max_tokens, _namer(kind)) for kind in ("theirs", "mine")]
            for text in _TEXTS:
                for at_a_time in TEXTS[text]:
                    number = pairs * _TIMES[at_a_time]
                    results[f"{text}, {at_a_time}"] = _measure(sides, text, at_a_time, number)
    notes = [
        f"Tokens per second of whole requests, prompts included, {facts['dtype']}, {threads} threads, up to {max_tokens}"
        f" tokens, greedy but for random words at temperature 1.5; drafter: {drafter}. One engine answers all: requests"
        " whose namespace the drafter may draft for, over requests whose namespace it may not. Levels: how often it was"
        " asked. Nothing is learned from answers."
    ]
    report.write(
        "draft/within/head",
        "Speed with a drafter over speed without, within one engine",
        facts,
        _HEADER,
        [_row(key, one) for key, one in results.items()],
        results,
        notes,
        command="python -m bench.draft.heads.within",
    )


def restricted(drafter: Path, to: Path, namespaces: Sequence[str]) -> Path:
    """A copy of a trained drafter that drafts for these namespaces alone.

    Args:
        drafter: Its folder.
        to: The copy's, which must not exist.
        namespaces: Their names.

    Returns:
        The copy's folder.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    shutil.copytree(drafter, to, ignore=shutil.ignore_patterns(_WEIGHTS))
    with safe_open(drafter / _WEIGHTS, "pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}
        metadata = dict(opened.metadata())
    origin = json.loads(metadata["spectrie"]) | {"namespaces": list(namespaces)}
    save_file(tensors, to / _WEIGHTS, metadata | {"spectrie": json.dumps(origin)})
    return to


def _measure(sides: Sequence[Side], text: str, at_a_time: int, pairs: int) -> dict[str, Any]:
    tasks = tasks_of(text, at_a_time)[:pairs]
    llm = sides[0].llms[0]
    for number in range(_WARM_UP):
        for side in sides:
            side.rate(0, number, tasks[number % len(tasks)])
    before = llm.load().head_levels
    without, beside = (
        [lambda side=side, n=n: side.rate(0, n, tasks[n]) for n in range(len(tasks))]
        for side in sides
    )
    found = compare(without, beside, pairs=pairs, title=f"{text} x{at_a_time}").summary()
    return found | {"levels": llm.load().head_levels - before}


def _names(kind: str) -> list[str]:
    return [f"{kind}-{number}" for number in range(_NAMESPACES)]


def _namer(kind: str) -> Callable[[], str]:
    """Gives a new one of the names each time."""
    names = iter(_names(kind))

    def name() -> str:
        found = next(names, None)
        if found is None:
            raise SystemExit(f"all {_NAMESPACES} namespaces are used up: ask for fewer --pairs")
        return found

    return name


def _row(key: str, one: dict[str, Any]) -> list[str]:
    text, at_a_time = key.split(", ")
    return [
        text,
        at_a_time,
        f"{one['ratio']:.3f}x",
        f"{one['ratio_low']:.3f} to {one['ratio_high']:.3f}",
        f"{FLOORS[text]:.2f}x",
        str(one["pairs"]),
        str(one["levels"]),
    ]


if __name__ == "__main__":
    main()
