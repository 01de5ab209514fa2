"""Speculation on against off, for edits with a prediction, code with a corpus, and chat.

The rival beside ours is transformers' prompt lookup.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.draft.corpora.corpus import CorpusLock
from bench.draft.ours import build_corpus
from bench.support import machine, report
from bench.support.namespaces import fresh_namespace
from bench.support.pairs import Comparison, compare
from bench.support.prompt_ids import prompt_ids
from bench.support.prompts import Kind, Prompt, load
from bench.support.rival import Rival
from spectrie import _core
from spectrie.types import SpeculationOptions, SpeculationStats

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["run"]

FLOORS: dict[Kind, float] = {"edit": 2.0, "code": 1.4, "chat": 1.05}
"""Minimum speed-up over our own plain decoding."""
GOALS: dict[Kind, float] = {"edit": 2.7, "code": 1.8, "chat": 1.35}
CORPORA: dict[Kind, str] = {"code": "corpus"}
"""Set of `bench/draft/corpora/corpus.lock` that answers of a kind are drafted from."""
LOOKUP_TOKENS = 10
_Sample = tuple[Prompt, list[int]]


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
            samples = [(prompt, prompt_ids(llm, prompt)) for prompt in load(kind)]
            ours = _ours(llm, samples, kind, pairs, max_tokens)
        rival = rival or Rival(folder, facts["dtype"], threads)
        theirs = _theirs(rival, samples, kind, pairs, max_tokens)
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


def _ours(
    llm: LLM, samples: list[_Sample], kind: Kind, pairs: int, max_tokens: int
) -> dict[str, Any]:
    tokens: dict[tuple[str, bool], tuple[int, ...]] = {}
    stats: dict[str, SpeculationStats] = {}

    def sample(prompt: Prompt, ids: list[int], enabled: bool) -> float:
        began = time.perf_counter()
        completion = llm.generate(
            prompt_token_ids=ids,
            max_tokens=max_tokens,
            temperature=0.0,
            prediction=prompt.prediction,
            namespace=fresh_namespace(),
            speculation=SpeculationOptions(enabled=enabled, learn=False),
        )
        seconds = time.perf_counter() - began
        tokens[prompt.id, enabled] = completion.token_ids
        if enabled:
            stats[prompt.id] = completion.speculation
        return len(completion.token_ids) / seconds

    for prompt, ids in samples[:2]:  # warm-up
        sample(prompt, ids, True)
    comparison = compare(
        [lambda p=p, i=i: sample(p, i, False) for p, i in samples],  # type: ignore[misc]
        [lambda p=p, i=i: sample(p, i, True) for p, i in samples],  # type: ignore[misc]
        pairs=pairs,
        title=f"speculation {kind}",
    )
    measured = [p.id for p, _ in samples if (p.id, False) in tokens]
    steps = sum(s.verify_steps for s in stats.values())
    accepted = sum(s.accepted_tokens for s in stats.values())
    by_source: dict[str, int] = {}
    for one in stats.values():
        for name, count in one.accepted_by_source.items():
            by_source[name] = by_source.get(name, 0) + count
    return {
        **comparison.summary(),
        "verdict": comparison.verdict(FLOORS[kind]),
        "floor": FLOORS[kind],
        "goal": GOALS[kind],
        "identical": sum(tokens[name, True] == tokens[name, False] for name in measured),
        "prompts": len(measured),
        "tokens_per_step": 1 + accepted / steps if steps else 1.0,
        "accepted_per_step": accepted / steps if steps else 0.0,
        "drafted_per_step": sum(s.drafted_tokens for s in stats.values()) / max(steps, 1),
        "accepted_by_source": by_source,
    }


def _theirs(
    rival: Rival, samples: list[_Sample], kind: Kind, pairs: int, max_tokens: int
) -> dict[str, Any]:
    tokens: dict[tuple[str, bool], list[int]] = {}

    def sample(prompt: Prompt, ids: list[int], enabled: bool) -> float:
        lookup = LOOKUP_TOKENS if enabled else None
        found, _, seconds = rival.run(ids, max_tokens, lookup=lookup, fixed=False)
        tokens[prompt.id, enabled] = found
        return len(found) / seconds

    comparison: Comparison = compare(
        [lambda p=p, i=i: sample(p, i, False) for p, i in samples],  # type: ignore[misc]
        [lambda p=p, i=i: sample(p, i, True) for p, i in samples],  # type: ignore[misc]
        pairs=min(pairs, len(samples)),
        title=f"transformers {kind}",
    )
    measured = [p.id for p, _ in samples if (p.id, True) in tokens]
    identical = sum(tokens[name, True] == tokens[name, False] for name in measured)
    return {**comparison.summary(), "identical": identical, "prompts": len(measured)}


def _row(kind: Kind, ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    return [
        kind,
        f"{ours['base_median']:.1f}",
        f"{ours['ours_median']:.1f}",
        f"{ours['ratio']:.2f}x",
        f"{ours['ratio_low']:.2f}-{ours['ratio_high']:.2f}",
        f"{ours['tokens_per_step']:.2f}",
        f"{ours['accepted_per_step']:.2f}",
        f"{ours['identical']}/{ours['prompts']}",
        f"{ours['floor']:g}x",
        f"{ours['goal']:g}x",
        str(ours["verdict"]),
        f"{theirs['ratio']:.2f}x, {theirs['identical']}/{theirs['prompts']} identical",
    ]
