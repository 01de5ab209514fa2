"""Records what a head answers along traces: `python -m bench.draft.recording.head TRACE ... --drafter PATH`.

A trace is what `spectrie replay --input` reads. The answers go to a file of their own beside it or in
another folder, which names the trace and the head by their hashes; the trace does not change. They are known
along the recorded outputs alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.draft.bigrams import FILE, read_bigrams
from bench.draft.recording.answers import levels_of, record_answers
from bench.draft.recording.head_file import HeadAnswers, answers_for, lines_of, write_answers
from spectrie import _core

if TYPE_CHECKING:
    from spectrie.model import Runner

__all__ = ["record_trace"]

_PAGES = 512

Encode = Callable[[str, bool], list[int]]
"""Ids of a text, with or without the tokens that begin one."""


def main() -> int:
    """Loads model and head once, and records one trace after the other."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.draft.recording.head", description=__doc__
    )
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help="recorded requests")
    parser.add_argument("--drafter", type=Path, required=True, help="folder of the head")
    parser.add_argument("--model", default="smollm2-135m", help="model [smollm2-135m]")
    parser.add_argument("--out", type=Path, help="folder of the answers [beside each trace]")
    parser.add_argument("--dtype", default="auto", help="dtype of the model [auto]")
    parser.add_argument("--threads", type=int, help="threads [the fastest count]")
    args = parser.parse_args()
    from spectrie.model import load_runner, resolve

    folder = Path(resolve(args.model).folder)
    tokenizer = _core.Tokenizer.from_folder(folder)
    runner = load_runner(
        folder, dtype=args.dtype, threads=args.threads, num_pages=_PAGES, drafter=args.drafter
    )
    try:
        for path in args.traces:
            out = (args.out or path.parent) / answers_for(path)
            record_trace(runner, path, out, tokenizer.encode)
            print(f"{out}: {out.stat().st_size / 1e3:,.0f} kB", file=sys.stderr, flush=True)
    finally:
        runner.close()
    return 0


def record_trace(runner: Runner, path: Path, out: Path, encode: Encode | None = None) -> None:
    """Records the answers for one trace.

    Args:
        runner: A model on a CPU with a drafter, that serves nobody.
        path: The trace. Bigrams that lie beside it say, with the text, what the head is asked about.
        out: Where the answers go.
        encode: Reads text; without it a trace holds ids.

    Raises:
        ValueError: There is no drafter, a text does not fit the cache, or a line lacks ids.
    """
    drafter = runner.drafter
    if drafter is None:
        raise ValueError("answers are recorded of a model with a drafter")
    facts = {
        "drafter": drafter.name,
        "kind": drafter.kind,
        "drafter_hash": drafter.hash,
        "model_hash": runner.model_hash,
        "dtype": runner.dtype_name,
        "levels": levels_of(runner),
    }
    write_answers(out, path, facts, _answers(runner, path, encode))


def _answers(runner: Runner, path: Path, encode: Encode | None) -> Iterator[HeadAnswers]:
    beside = path.parent / FILE
    sources = _core.Replay(bigrams=read_bigrams(beside) if beside.is_file() else None)
    for line in lines_of(path):
        record = json.loads(line)
        prompt, output = (_ids(record, field, encode) for field in ("prompt", "output"))
        names = sources.names(prompt, output, _as_served(record.get("topk"), len(prompt) - 1))
        yield record_answers(runner, prompt, output, names)


def _ids(record: dict[str, Any], field: str, encode: Encode | None) -> list[int]:
    ids: list[int] | None = record.get(f"{field}_ids")
    if ids is not None:
        return ids
    if encode is None or field not in record:
        raise ValueError(f"a request has no {field}_ids")
    return encode(record[field], field == "prompt")


def _as_served(topk: list[Any] | None, before: int) -> tuple[list[Any], list[Any]] | None:
    """Without the likeliest tokens inside the prompt, which a server does not keep by default."""
    if topk is None:
        return None
    entries: list[Any] = [
        ([], []) if index < before else entry or ([], []) for index, entry in enumerate(topk)
    ]
    return [ids for ids, _ in entries], [given for _, given in entries]


if __name__ == "__main__":
    sys.exit(main())
