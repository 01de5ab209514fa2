"""Fits the weights that ship: `python -m bench.draft.tuning.fit FOLDER`, over the tuning split alone.

FOLDER is what `python -m bench.draft.recording.make --tune FOLDER` filled. Every second request is held out
first, to see what the weights are worth; those that ship are then fitted to all of them. The
result goes to `rust/trie/src/score/prior.bin`; nothing that a bench reports is read.
"""

from __future__ import annotations

import array
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.draft import trace
from bench.draft.bigrams import FILE, read_bigrams
from bench.draft.corpora.corpus import read_ids
from bench.draft.ours import build_corpus

_ROOT = Path(__file__).resolve().parents[3]
_FAMILIES = ("human_eval_chat", "human_eval_raw", "questions", "edits", "chat", "routing")
_WITH_CORPUS = ("code", "human_eval_chat", "human_eval_raw", "edits", "questions")


def main(folder: Path) -> None:
    """Writes the traces as words and runs `fit` of spectrie-trie over them."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        alone = []
        answered = []
        for family in ("code", *_FAMILIES):
            requests = trace.read(folder / f"{family}.jsonl.xz")
            packed = [str(path) for path in _pack(work, family, requests)]
            alone += packed
            answered += packed[: len(packed) - 1]
        bigrams = work / "tune.bigrams"
        read_bigrams(folder / FILE).save(bigrams, "tune")
        corpus = build_corpus("tune", read_ids(folder / "corpus.u32"), work)
        beside = [path for path in alone if Path(path).stem.removesuffix("_bare") in _WITH_CORPUS]
        out = _ROOT / "rust" / "trie" / "src" / "score" / "prior.bin"
        command = ["cargo", "bench", "-p", "spectrie-trie", "--bench", "fit", "--"]
        command += [str(out), *alone, "--corpus", str(corpus), *beside]
        command += ["--bigrams", str(bigrams), *(path for path in beside if path in answered)]
        command += ["--neither", "--bigrams", str(bigrams), *answered]
        for more in ([], ["--all"]):
            subprocess.run([*command, *more], cwd=_ROOT, check=True)


def _pack(folder: Path, family: str, requests: list[trace.Request]) -> list[Path]:
    """With what the model answered, where it is known, and without."""
    full = folder / f"{family}.bin"
    full.write_bytes(b"".join(_words(request, recycle=True) for request in requests))
    if all(request.topk is None for request in requests):
        return [full]
    bare = folder / f"{family}_bare.bin"
    bare.write_bytes(b"".join(_words(request, recycle=False) for request in requests))
    return [full, bare]


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
    main(Path(sys.argv[1]))
