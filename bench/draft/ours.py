"""Our own drafter, replayed by `spectrie replay`'s engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from bench.draft.trace import Request
from spectrie import _core

__all__ = ["HeadUse", "Recycle", "build_corpus", "replay_ours"]

Recycle = Literal["all", "decode", "off"]
"""As the option `recycle` of a worker."""
HeadUse = Literal["off", "on", "only"]
"""As the flag `head` of `spectrie replay`."""


def build_corpus(
    name: str, documents: list[list[int]], folder: Path, fingerprint: str = ""
) -> Path:
    """Writes documents as a corpus file, for one tokenizer, and gives its path."""
    builder = _core.CorpusBuilder(name, fingerprint)
    for document in documents:
        builder.push(document)
    path = folder / f"{name}.corpus"
    builder.finish(path)
    return path


def replay_ours(
    requests: Sequence[Request],
    *,
    nodes: int = 16,
    price: float = 0.0,
    online: bool = False,
    corpora: Sequence[Path] = (),
    recycle: Recycle = "decode",
    bigrams: _core.Bigrams | None = None,
    head: HeadUse = "off",
    head_rows: int = 4,
    answers: Sequence[list[list[list[list[Any]]]]] | None = None,
) -> dict[str, Any]:
    """Replays requests and gives the report of `spectrie replay --json`.

    Args:
        requests: In arrival order.
        nodes: Maximum number of draft tokens per step.
        price: Nodes less likely than this are not drafted.
        online: Whether finished requests are inserted for later ones.
        corpora: Corpus files that every request reads.
        recycle: Where the model's own top-8 is drafted from: after every token, after those that it
            answered (what ships), or nowhere.
        bigrams: What the model says after one token alone.
        head: Whether recorded answers of a head are drafted from.
        head_rows: Nodes of a level that it is asked about at most.
        answers: Those of each request.
    """
    replay = _core.Replay(
        nodes=nodes,
        min_value=price,
        memory="online" if online else "cold",
        corpora=list(corpora),
        recycle=recycle != "off",
        bigrams=bigrams,
        head=head,
        head_rows=head_rows,
    )
    for number, request in enumerate(requests, 1):
        top = request.topk
        if top is not None and recycle == "decode":
            before = len(request.prompt_ids) - 1
            top = [([], [])] * before + top[before:]
        replay.push(
            request.prompt_ids,
            request.output_ids,
            request.prediction_ids,
            topk=None if top is None else ([ids for ids, _ in top], [row for _, row in top]),
            head=None if answers is None else answers[number - 1],
        )
        if number % 32 == 0:
            print(f"    {number}/{len(requests)} requests", file=sys.stderr, flush=True)
    report: dict[str, Any] = replay.report()
    return report
