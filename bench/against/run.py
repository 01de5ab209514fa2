"""Runs both builds in turn, by pairs of samples, and writes one table."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.against.build import Build, Child
from bench.draft.corpora.corpus import CorpusLock
from bench.support import machine, report
from bench.support.pairs import MAX_FOREIGN_CORES, MIN_PAIRS, median_interval

__all__ = ["NO_SLOWER", "Row", "pairs_of", "run", "samplers_of"]

NO_SLOWER = 0.98
"""An interval above this counts as no slower, as does one that contains 1."""
QUICK_PAIRS = 4
TRACE_PART = 4
"""One request in this many of the code trace is replayed."""
_RETRIES = 3
_HEADER = ["what", "base", "ours", "ratio", "95 %", "pairs", "verdict"]
_Take = Callable[[int], tuple[dict[str, float], dict[str, Any]]]


@dataclass(slots=True)
class Row:
    """Rates of both builds, pair by pair; more is better."""

    base: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Ours over base."""
        return [ours / base for base, ours in zip(self.base, self.ours, strict=True)]

    @property
    def verdict(self) -> str:
        """`no slower`, `faster`, `slower`, or `too few pairs`."""
        low, high = median_interval(self.ratios)
        if len(self.ratios) < MIN_PAIRS:
            return "too few pairs"
        if low > 1:
            return "faster"
        return "no slower" if high >= 1 or low > NO_SLOWER else "slower"

    def cells(self, what: str) -> list[str]:
        """The cells of the table."""
        low, high = median_interval(self.ratios)
        rates = [f"{statistics.median(one):.4g}/s" for one in (self.base, self.ours)]
        ratio = f"{statistics.median(self.ratios):.3f}"
        return [what, *rates, ratio, f"{low:.3f}-{high:.3f}", str(len(self.ratios)), self.verdict]


def run(base: Path, model: str, *, pairs: int, threads: int, quick: bool) -> None:
    """Compares this checkout's build with another's and writes `bench/results/against/COMMIT.*`.

    Args:
        base: The other checkout, built.
        model: Folder of the model.
        pairs: Pairs of each row.
        threads: Threads of a forward.
        quick: Whether a few pairs are enough, to see that everything runs.
    """
    builds = (Build.of(base.resolve()), Build.of(machine.ROOT))
    pairs = QUICK_PAIRS if quick else max(pairs, MIN_PAIRS)
    facts = machine.facts(threads=threads)
    rows: dict[str, Row] = {}
    equal: dict[str, bool] = {}
    with tempfile.TemporaryDirectory(prefix="spectrie-bench-") as work:
        dtypes = ["float32", *(["bfloat16"] if facts["bf16_instructions"] else [])]
        for name, more in samplers_of(dtypes, documents_of_code(Path(model), Path(work))):
            _compare(builds, name, Path(model), threads, more, pairs, rows, equal)
    different = sorted(what for what, same in equal.items() if not same)
    notes = [
        f"Base: commit {builds[0].commit}; ours: commit {builds[1].commit}. Each build in processes of its own,"
        " measured by the same code in turn, the order swapped every other pair; rates, so that a ratio above 1"
        f" is faster. No slower: the interval of the median ratio contains 1 or lies above {NO_SLOWER}."
        f" Equal in both builds: {', '.join(sorted(equal.keys() - set(different))) or 'nothing'};"
        f" different: {', '.join(different) or 'nothing'}."
    ]
    data = {
        "base_commit": builds[0].commit,
        "our_commit": builds[1].commit,
        "rows": {what: {"base": row.base, "ours": row.ours} for what, row in rows.items()},
        "equal": equal,
    }
    cells = [row.cells(what) for what, row in rows.items()]
    name = f"against/{builds[0].commit}"
    report.write(name, "Two builds in turn", facts, _HEADER, cells, data, notes)


def pairs_of(base: _Take, ours: _Take, pairs: int) -> tuple[dict[str, Row], dict[str, bool]]:
    """Rows and equal facts of `pairs` pairs; every other one begins with ours. One beside which others used too many cores
    is taken again.

    Args:
        base: Takes a sample of the base.
        ours: Likewise.
        pairs: How many.
    """
    rows: dict[str, Row] = {}
    equal: dict[str, bool] = {}
    for number in range(pairs):
        order = (base, ours) if number % 2 == 0 else (ours, base)
        for attempt in range(_RETRIES):
            samples, cores = machine.foreign_cores(partial(_taken, order, number))
            if cores <= MAX_FOREIGN_CORES or attempt == _RETRIES - 1:
                break
        (base_rates, base_facts), (our_rates, our_facts) = samples[base], samples[ours]
        for what, rate in base_rates.items():
            row = rows.setdefault(what, Row())
            row.base.append(rate)
            row.ours.append(our_rates[what])
        for what, fact in base_facts.items():
            equal[what] = equal.get(what, True) and our_facts[what] == fact
    return rows, equal


def _taken(
    order: Sequence[_Take], number: int
) -> dict[_Take, tuple[dict[str, float], dict[str, Any]]]:
    return {take: take(number) for take in order}


def samplers_of(dtypes: Sequence[str], documents: str) -> list[tuple[str, dict[str, Any]]]:
    """Names of the samplers in order, each with what it needs."""
    return [
        *(("decode", {"dtype": dtype}) for dtype in dtypes),
        ("speculation", {"dtype": dtypes[-1]}),
        ("router", {}),
        ("overlap", {}),
        ("draft", {"every": TRACE_PART, "documents": documents}),
    ]


def documents_of_code(folder: Path, work: Path) -> str:
    """A file with the ids of the code corpus; empty where its packages cannot be had.

    Args:
        folder: The model, for its tokenizer.
        work: Where the file goes.
    """
    try:
        documents = CorpusLock.load("corpus").documents(folder / "tokenizer.json")
    except OSError as error:
        print(f"bench: no corpus, its packages cannot be had: {error}", file=sys.stderr)
        return ""
    file = work / "documents.json"
    file.write_text(json.dumps(documents), encoding="ascii")
    return str(file)


def _compare(
    builds: tuple[Build, Build],
    name: str,
    folder: Path,
    threads: int,
    more: dict[str, Any],
    pairs: int,
    rows: dict[str, Row],
    equal: dict[str, bool],
) -> None:
    print(f"against: {name} {more.get('dtype', '')}", file=sys.stderr, flush=True)
    children = [Child(build, name, folder, threads, more) for build in builds]
    try:
        base, ours = children
        new_rows, new_equal = pairs_of(base.take, ours.take, pairs)
    finally:
        for child in children:
            child.close()
    rows |= new_rows
    equal |= new_equal
    for what, row in new_rows.items():
        print(f"  {what}: {' '.join(row.cells(what)[1:])}", file=sys.stderr, flush=True)
