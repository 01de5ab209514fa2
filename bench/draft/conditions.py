"""What is replayed under which conditions."""

from __future__ import annotations

from dataclasses import dataclass

from bench.draft.rivals.contenders import ALONE, FRONTIER, WITH_CORPUS, Contender

__all__ = ["CONDITIONS", "DISTRACTORS", "PRICES", "Condition"]

PRICES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65)
"""Prices of our frontier, beside zero."""
DISTRACTORS = (
    "distractor_translations",
    "distractor_pages",
    "distractor_manuals",
    "distractor_data",
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One block of replays.

    Attributes:
        name: Key in the result file.
        title: What a table says of it.
        traces: Trace files, each counted alone.
        corpora: Sets of the lock that are inserted first.
        online: Whether finished requests are inserted for later ones.
        rivals: Who else is replayed.
        prices: Prices at which ours is replayed again.
    """

    name: str
    title: str
    traces: tuple[str, ...]
    corpora: tuple[str, ...] = ()
    online: bool = False
    rivals: tuple[Contender, ...] = ALONE
    prices: tuple[float, ...] = ()


_MODEL = (
    *("human_eval_chat", "human_eval_raw", "questions", "edits", "chat", "languages"),
    *("programming", "maths", "summaries", "translation", "turns", "warm"),
)

CONDITIONS: tuple[Condition, ...] = (
    Condition("alone", "each request alone", ("code", *_MODEL), prices=PRICES),
    Condition(
        "corpus",
        "code corpus, files teach later ones",
        ("code",),
        corpora=("corpus",),
        online=True,
        rivals=WITH_CORPUS + FRONTIER,
        prices=PRICES,
    ),
    Condition(
        "model_corpus",
        "code corpus, requests alone",
        ("human_eval_chat", "human_eval_raw"),
        corpora=("corpus",),
        rivals=WITH_CORPUS,
        prices=PRICES,
    ),
    Condition(
        "online", "finished requests teach the next", ("routing",), online=True, prices=PRICES
    ),
    Condition("no_corpus", "no corpus, files teach later ones", ("code",), online=True, rivals=()),
    Condition(
        "distractors",
        "code corpus and four others, files teach later ones",
        ("code",),
        corpora=("corpus", *DISTRACTORS),
        online=True,
        rivals=tuple(one for one in WITH_CORPUS if "automaton" in one.name),
    ),
)
