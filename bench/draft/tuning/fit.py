"""Fits the weights that ship: `python -m bench.draft.tuning.fit [OUT]`, from what is committed.

They start at zero and are fitted to the traces of the split `tune`; what they are worth is printed
for the split `choose`, whose sources are others, as are those of what a bench reports. Equal traces
give equal bytes. The result goes to `rust/trie/src/score/prior.bin` by default.
"""

from __future__ import annotations

import argparse
import array
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.draft import trace
from bench.draft.bigrams import FILE, read_bigrams
from bench.draft.corpora.corpus import CorpusLock
from bench.draft.ours import build_corpus
from bench.draft.recording.tasks import FAMILIES

_ROOT = Path(__file__).resolve().parents[3]
_PRIOR = _ROOT / "rust" / "trie" / "src" / "score" / "prior.bin"
_WITH_CORPUS = ("code", "human_eval_chat", "human_eval_raw", "edits", "questions")
_CORPUS = "tune_corpus"


def main() -> int:
    """Writes the traces as words and runs `fit` of spectrie-trie over them."""
    parser = argparse.ArgumentParser(prog="python -m bench.draft.tuning.fit", description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=_PRIOR, help="file of the weights")
    parser.add_argument("--model", default="smollm2-135m", help="whose tokenizer [smollm2-135m]")
    parser.add_argument(
        "--of", type=Path, metavar="WEIGHTS", help="only prints what these are worth"
    )
    args = parser.parse_args()
    from spectrie.model import resolve

    tokenizer_file = Path(resolve(args.model).folder) / "tokenizer.json"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        corpus = build_corpus("tune", CorpusLock.load(_CORPUS).documents(tokenizer_file), work)
        command = ["cargo", "bench", "--locked", "--quiet", "-p", "spectrie-trie", "--bench", "fit"]
        command += ["--", str(args.out.resolve())]
        if args.of is None:
            command += _traces("tune", work, corpus)
        else:
            command += ["--from", str(args.of.resolve())]
        command += ["--neither", "--check", *_traces("choose", work, corpus)]
        subprocess.run(command, cwd=_ROOT, check=True)
    return 0


def _traces(split: str, work: Path, corpus: Path) -> list[str]:
    """The arguments for a split: each trace alone, with a corpus, with bigrams, with both."""
    trace.verify(trace.folder(split))
    folder = work / split
    folder.mkdir()
    packed: dict[str, list[str]] = {}
    for family in ("code", *FAMILIES):
        requests = trace.read(trace.folder(split) / f"{family}.jsonl.xz")
        packed[family] = _pack(folder, family, requests)
    bigrams = folder / "tune.bigrams"
    read_bigrams(trace.folder(split) / FILE).save(bigrams, "tune")
    beside = [path for family in _WITH_CORPUS for path in packed[family]]
    answered = [paths[0] for paths in packed.values() if len(paths) > 1]
    return [
        *(path for paths in packed.values() for path in paths),
        *("--corpus", str(corpus), *beside),
        *("--bigrams", str(bigrams), *(path for path in beside if path in answered)),
        *("--neither", "--bigrams", str(bigrams), *answered),
    ]


def _pack(folder: Path, family: str, requests: list[trace.Request]) -> list[str]:
    """With what the model answered, where it is known, and without."""
    full = folder / f"{family}.bin"
    full.write_bytes(b"".join(_words(request, recycle=True) for request in requests))
    if all(request.topk is None for request in requests):
        return [str(full)]
    bare = folder / f"{family}_bare.bin"
    bare.write_bytes(b"".join(_words(request, recycle=False) for request in requests))
    return [str(full), str(bare)]


def _words(request: trace.Request, *, recycle: bool) -> bytes:
    top = (request.topk or []) if recycle else []
    prediction = request.prediction_ids or []
    counts = [len(request.prompt_ids), len(request.output_ids), len(prediction), len(top)]
    ids = [*counts, *request.prompt_ids, *request.output_ids, *prediction]
    words = array.array("I", ids)
    for tokens, given in top:
        padding = [0] * (trace.TOP_K - len(tokens))
        words.extend([*tokens, *padding])
        words.frombytes(array.array("f", [*given, *padding]).tobytes())
    return words.tobytes()


if __name__ == "__main__":
    sys.exit(main())
