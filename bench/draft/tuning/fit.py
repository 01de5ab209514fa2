"""Fits the weights that ship: `python -m bench.draft.tuning.fit [OUT]`, from what is committed.

They start at zero and are fitted to the traces of the split `tune`; what they are worth is printed
for the split `choose`, whose sources are others, as are those of what a bench reports. Equal traces
give equal bytes. The result goes to `rust/trie/src/score/prior.bin` by default.

With `--head [FOLDER]` what is believed of a head is fitted instead, above those weights, which stay as they are: how
its answers are weighed, and what they add. FOLDER holds its answers to traces of both splits, as
`python -m bench.draft.recording.head` records them: FOLDER/tune/NAME.head.jsonl.xz and FOLDER/choose/... By default they
are those of the head that ships. The result goes to `rust/trie/src/score/head_prior.bin` by default.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.draft import trace
from bench.draft.bigrams import FILE, read_bigrams
from bench.draft.corpora.corpus import CorpusLock
from bench.draft.ours import build_corpus
from bench.draft.recording.head_file import ANSWERS, ENDING, read_answers
from bench.draft.recording.tasks import FAMILIES
from bench.draft.tuning.words import answer_words, request_words

_ROOT = Path(__file__).resolve().parents[3]
_SCORE = _ROOT / "rust" / "trie" / "src" / "score"
_PRIOR, _HEAD_PRIOR = _SCORE / "prior.bin", _SCORE / "head_prior.bin"
_WITH_CORPUS = ("code", "human_eval_chat", "human_eval_raw", "edits", "questions")
_CORPUS = "tune_corpus"
_NAMES = ("code", *FAMILIES)


def main() -> int:
    """Writes the traces as words and runs `fit` of spectrie-trie over them."""
    parser = argparse.ArgumentParser(prog="python -m bench.draft.tuning.fit", description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", help=f"file of the weights [{_PRIOR.name}]")
    parser.add_argument("--model", default="smollm2-135m", help="whose tokenizer [smollm2-135m]")
    parser.add_argument(
        "--of", type=Path, metavar="WEIGHTS", help="only prints what these are worth"
    )
    parser.add_argument(
        "--head",
        type=Path,
        nargs="?",
        const=ANSWERS,
        metavar="FOLDER",
        help="fits a head's prior to answers in FOLDER [those of the head that ships]",
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if args.head is None:
            arguments = _for_all(args.model, args.of, work)
        else:
            arguments = _for_head(args.head, args.of, work)
        out = args.out or (_PRIOR if args.head is None else _HEAD_PRIOR)
        if args.head is not None and args.of is not None:
            out = args.of
        command = ["cargo", "bench", "--locked", "--quiet", "-p", "spectrie-trie", "--bench", "fit"]
        subprocess.run([*command, "--", str(out.resolve()), *arguments], cwd=_ROOT, check=True)
    return 0


def _for_all(model: str, of: Path | None, work: Path) -> list[str]:
    """The arguments that fit all weights, or tell what some are worth."""
    from spectrie.model import resolve

    tokenizer_file = Path(resolve(model).folder) / "tokenizer.json"
    corpus = build_corpus("tune", CorpusLock.load(_CORPUS).documents(tokenizer_file), work)
    fitted = _traces("tune", work, corpus) if of is None else ["--from", str(of.resolve())]
    return [*fitted, "--neither", "--check", *_traces("choose", work, corpus)]


def _traces(split: str, work: Path, corpus: Path) -> list[str]:
    """The arguments for a split: each trace alone, with a corpus, with bigrams, with both."""
    trace.verify(trace.folder(split))
    folder = work / split
    folder.mkdir()
    packed: dict[str, list[str]] = {}
    for family in _NAMES:
        packed[family] = _pack(folder, family, trace.read(_file(split, family)))
    bigrams = _bigrams(split, folder)
    beside = [path for family in _WITH_CORPUS for path in packed[family]]
    answered = [paths[0] for paths in packed.values() if len(paths) > 1]
    return [
        *(path for paths in packed.values() for path in paths),
        *("--corpus", str(corpus), *beside),
        *("--bigrams", bigrams, *(path for path in beside if path in answered)),
        *("--neither", "--bigrams", bigrams, *answered),
    ]


def _for_head(answers: Path, of: Path | None, work: Path) -> list[str]:
    """The arguments that fit a head's prior, or tell what one is worth."""
    fitted = _answered("tune", answers, work) if of is None else []
    return [*fitted, "--neither", "--check", *_answered("choose", answers, work)]


def _answered(split: str, answers: Path, work: Path) -> list[str]:
    """The arguments for a split: each trace that a head's answers are there for, with bigrams."""
    trace.verify(trace.folder(split))
    folder = work / split
    folder.mkdir()
    arguments = ["--bigrams", _bigrams(split, folder)]
    found = [name for name in _NAMES if (answers / split / f"{name}{ENDING}").is_file()]
    if not found:
        raise SystemExit(f"{answers / split} holds no answers: record them with {_RECORDER}")
    for name in found:
        path = _file(split, name)
        requests = trace.read(path)
        _, heads = read_answers(answers / split / f"{name}{ENDING}", path)
        words = folder / f"{name}.answers"
        words.write_bytes(
            b"".join(answer_words(head) for _, head in zip(requests, heads, strict=True))
        )
        arguments += ["--answers", str(words), _pack(folder, name, requests)[0]]
    return arguments


_RECORDER = "python -m bench.draft.recording.head TRACE ... --drafter HEAD --out FOLDER/SPLIT"


def _file(split: str, name: str) -> Path:
    return trace.folder(split) / f"{name}.jsonl.xz"


def _bigrams(split: str, folder: Path) -> str:
    path = folder / "tune.bigrams"
    read_bigrams(trace.folder(split) / FILE).save(path, "tune")
    return str(path)


def _pack(folder: Path, family: str, requests: list[trace.Request]) -> list[str]:
    """With what the model answered, where it is known, and without."""
    full = folder / f"{family}.bin"
    full.write_bytes(b"".join(request_words(request, recycle=True) for request in requests))
    if all(request.topk is None for request in requests):
        return [str(full)]
    bare = folder / f"{family}_bare.bin"
    bare.write_bytes(b"".join(request_words(request, recycle=False) for request in requests))
    return [str(full), str(bare)]


if __name__ == "__main__":
    sys.exit(main())
