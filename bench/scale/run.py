"""Measures draft memory at size, this build and another in turn, and writes one table."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.against.build import Build, Child
from bench.against.run import documents_of_code
from bench.scale import price, samplers, tenants
from bench.scale.figure import FIGURES, Figure, verdict
from bench.support import machine, report
from bench.support.pairs import MIN_PAIRS

__all__ = ["run"]

COUNTED = {"held": 1, "disk": 1, "tenants": 1}
"""Samplers that count: one sample says it all."""
SAMPLES = {"ends": 5, "price": 30}
"""Fewer where one takes long, more where a net gain needs so many steps held out."""
OF_BASE = {"beside": 5, "size": 5, "price": 2}
"""Samples of the base where limits are for ours alone: enough to tell where it stands, which takes it long."""
QUICK = 2
CORPUS_TOKENS = 1_000_000_000
SMALLER_CORPUS_TOKENS = 200_000_000
CORPUS_BYTES_FREE = 60 << 30
"""Free bytes for each build below which the smaller corpus is built."""
QUICK_CORPUS_TOKENS = 2_000_000
_SAMPLERS = ("held", "beside", "size", "scale-draft", "ends", "tenants", "disk", "price")
_HEADER = ["what", "base", "ours", "floor", "goal", "samples", "verdict"]
_Samples = dict[str, list[float]]


def run(base: Path | None, model: str, *, threads: int, quick: bool) -> None:
    """Measures and writes `bench/results/scale/COMMIT.*`, named after the base, or this build without one.

    Args:
        base: Another checkout, built; without it only this one is measured.
        model: Folder of the model, for its tokenizer.
        threads: As everywhere.
        quick: Whether a few samples are enough, to see that everything runs.
    """
    checkouts = [*([base.resolve()] if base else []), machine.ROOT]
    builds = [Build.of(checkout) for checkout in checkouts]
    tokens = QUICK_CORPUS_TOKENS if quick else _corpus_tokens(len(builds))
    taken: list[_Samples] = [{} for _ in builds]
    facts = machine.facts(threads=threads)
    with tempfile.TemporaryDirectory(prefix="spectrie-bench-") as work:
        documents = "" if quick else documents_of_code(Path(model), Path(work))
        more = {"corpus_tokens": tokens, "every": 4, "documents": documents}
        for sampler in _SAMPLERS:
            count = QUICK if quick else SAMPLES.get(sampler, MIN_PAIRS)
            _take(builds, sampler, Path(model), threads, more, COUNTED.get(sampler, count), taken)
            # A run that is stopped keeps what it has.
            _write(builds, taken, tokens, facts)


def _write(
    builds: Sequence[Build], taken: Sequence[_Samples], tokens: int, facts: dict[str, Any]
) -> None:
    base = builds[:-1]
    of_base: _Samples = taken[0] if base else {}
    ours = taken[-1]
    rows = [_cells(figure, of_base, ours) for figure in FIGURES if figure.name in ours]
    commits = [build.commit for build in builds]
    notes = [
        (f"Base: commit {commits[0]}. " if base else "")
        + "Times are processor time of the engine's thread; forwards take none, or count as 10 ms where speculation"
        " on is compared with off. A figure is the median of its"
        " samples, taken in turn where there are two builds; the base has few where limits are for ours"
        f" alone. Corpus: {tokens:,} generated tokens."
    ]
    data = {"commits": commits, "base": of_base, "ours": ours}
    report.write(f"scale/{commits[0]}", "Draft memory at size", facts, _HEADER, rows, data, notes)


def _corpus_tokens(num_builds: int) -> int:
    free = shutil.disk_usage(Path.home()).free
    is_enough = free >= num_builds * CORPUS_BYTES_FREE
    return CORPUS_TOKENS if is_enough else SMALLER_CORPUS_TOKENS


def _take(
    builds: Sequence[Build],
    sampler: str,
    folder: Path,
    threads: int,
    more: dict[str, Any],
    count: int,
    taken: Sequence[_Samples],
) -> None:
    print(f"scale: {sampler}", file=sys.stderr, flush=True)
    module = next(one for one in (price, tenants, samplers) if sampler in one.SAMPLERS)
    children = [
        Child(
            build,
            sampler,
            folder,
            threads,
            more | {"is_base": build is not builds[-1]},
            module.__name__,
        )
        for build in builds
    ]
    try:
        for number in range(count):
            order = list(zip(children, taken, strict=True))
            if number >= OF_BASE.get(sampler, count):
                order = order[-1:]
            for child, figures in order if number % 2 == 0 else order[::-1]:
                for name, value in child.take(number)[0].items():
                    figures.setdefault(name, []).append(value)
    finally:
        for child in children:
            child.close()


def _cells(figure: Figure, base: Mapping[str, list[float]], ours: _Samples) -> list[str]:
    mine, theirs = ours[figure.name], base.get(figure.name)
    values: Sequence[float] = mine
    judged = "" if figure.of_base and theirs is None else None
    if figure.of_base and theirs is not None:
        values = [one / other for one, other in zip(mine, theirs, strict=True)]
    return [
        figure.name,
        _number(statistics.median(theirs)) if theirs else "",
        _number(statistics.median(mine)),
        "" if figure.floor is None else _number(figure.floor) + "x base" * figure.of_base,
        "" if figure.goal is None else _number(figure.goal) + "x base" * figure.of_base,
        str(len(mine)),
        verdict(figure, values) if judged is None else judged,
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
