"""Speculation on against off, for edits with a prediction, code with a corpus, and chat.

The rival beside ours is transformers' prompt lookup.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.draft.corpora.corpus import CorpusLock
from bench.draft.ours import build_corpus
from bench.speculation.off_on import LOOKUP_TOKENS, Sample, measure_ours, measure_rival
from bench.support import machine, report
from bench.support.pairs import shown_interval
from bench.support.prompt_ids import prompt_ids
from bench.support.prompts import Kind, load
from bench.support.rival import Rival
from spectrie import _core

__all__ = ["run"]

FLOORS: dict[Kind, float] = {"edit": 2.0, "code": 1.4, "chat": 1.05}
"""Minimum speed-up over our own plain decoding."""
GOALS: dict[Kind, float] = {"edit": 2.7, "code": 1.8, "chat": 1.35}
CORPORA: dict[Kind, str] = {"code": "corpus"}
"""Set of `bench/draft/corpora/corpus.lock` that answers of a kind are drafted from."""


def run(model: str, *, pairs: int, max_tokens: int, threads: int, dtype: str = "auto") -> None:
    """Measures 12 prompts of each kind and writes `bench/results/speculation.*`."""
    from spectrie import LLM
    from spectrie.model import resolve

    folder = Path(resolve(model).folder)
    rows, data = [], {}
    rival: Rival | None = None
    for kind in FLOORS:
        with (
            tempfile.TemporaryDirectory(prefix="spectrie-corpus-") as corpora,
            LLM(
                folder, dtype=dtype, threads=threads, corpora=_corpora(kind, folder, corpora)
            ) as llm,
        ):
            facts = machine.facts(threads=threads, dtype=llm.dtype)
            samples = [
                Sample(prompt.id, prompt_ids(llm, prompt), prompt.prediction)
                for prompt in load(kind)
            ]
            on, counts = measure_ours(llm, samples, pairs=pairs, max_tokens=max_tokens, title=kind)
        ours = {
            **on.summary(),
            "verdict": on.verdict(FLOORS[kind]),
            "floor": FLOORS[kind],
            "goal": GOALS[kind],
            **counts,
        }
        rival = rival or Rival(folder, facts["dtype"], threads)
        rounds = min(pairs, len(samples))
        lookup, same = measure_rival(
            rival, samples, pairs=rounds, max_tokens=max_tokens, title=kind
        )
        theirs = {**lookup.summary(), **same}
        data[kind] = {"spectrie": ours, "transformers": theirs}
        rows.append(_row(kind, ours, theirs))
    header = ["kind", "off tok/s", "on tok/s", "speed-up", "95 %", "tokens/step"]
    header += ["accepted/step", "identical", "floor", "goal", "verdict", "lookup speed-up"]
    notes = [
        f"Whole requests, prefill included, greedy, at most {max_tokens} tokens, {facts['dtype']},"
        f" {threads} threads; nothing is learned between requests. Edits carry their prediction, code"
        f" is drafted from a corpus of other packages. Lookup: transformers'"
        f" prompt_lookup_num_tokens={LOOKUP_TOKENS} over its own plain decoding."
    ]
    report.write("speculation", "Speculation on against off", facts, header, rows, data, notes)


def _corpora(kind: Kind, folder: Path, target: str) -> list[Path]:
    """The corpora of a kind, built into `target`."""
    if kind not in CORPORA:
        return []
    tokenizer = folder / "tokenizer.json"
    documents = CorpusLock.load(CORPORA[kind]).documents(tokenizer)
    fingerprint = _core.tokenizer_fingerprint(str(tokenizer))
    return [build_corpus(CORPORA[kind], documents, Path(target), fingerprint)]


def _row(kind: Kind, ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    return [
        kind,
        f"{ours['base_median']:.1f}",
        f"{ours['ours_median']:.1f}",
        f"{ours['ratio']:.2f}x",
        shown_interval(ours["ratio_low"], ours["ratio_high"], ours["ratio"]),
        f"{ours['tokens_per_step']:.2f}",
        f"{ours['accepted_per_step']:.2f}",
        f"{ours['identical']}/{ours['prompts']}",
        f"{ours['floor']:g}x",
        f"{ours['goal']:g}x",
        str(ours["verdict"]),
        f"{theirs['ratio']:.2f}x, {theirs['identical']}/{theirs['prompts']} identical",
    ]
