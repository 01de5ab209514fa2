"""Chose the rivals' tuned settings: `python -m bench.draft.tuning.tune FOLDER` over the tuning split.

FOLDER is what `python -m bench.draft.recording.make --tune FOLDER` filled. Nothing here is reported.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.draft import trace
from bench.draft.corpora.corpus import read_ids
from bench.draft.rivals.base import Setup
from bench.draft.rivals.contenders import grid
from bench.draft.walk import replay

_FILES_WITH_CORPUS = 24
_MODEL = ("human_eval_chat", "human_eval_raw", "questions", "edits", "chat")


def main(folder: Path) -> None:
    """Prints accepted and drafted tokens per step of every setting."""
    code = trace.read(folder / "code.jsonl.xz")
    model = [request for name in _MODEL for request in trace.read(folder / f"{name}.jsonl.xz")]
    for contender in grid(corpus=False):
        setup = Setup()
        for name, requests in (("code", code), ("model", model)):
            report = replay(contender.make(setup), requests, setup).report()
            _show(name, contender.name, report)
    documents = read_ids(folder / "corpus.u32")
    setup = Setup(online=True)
    for contender in grid(corpus=True):
        rival = contender.make(setup)
        rival.insert(documents)
        report = replay(rival, code[:: len(code) // _FILES_WITH_CORPUS], setup).report()
        _show("code with corpus", contender.name, report)


def _show(part: str, name: str, report: dict[str, float]) -> None:
    accepted, drafted = report["accepted_per_step"], report["drafted_per_step"]
    print(f"{part:18} {name:40} {accepted:.3f} of {drafted:.2f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
