"""Made the frozen traces: `python -m bench.draft.recording.make [PART ...] [--split SPLIT ...]`.

The bench never runs this: comparing means replaying the committed ids. What is reported lies in
`bench/draft/traces`, what weights and settings come from in `bench/draft/tuning/traces`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.draft import trace
from bench.draft.bigrams import FILE, record_bigrams, tokens_of
from bench.draft.corpora.corpus import LOCK, CorpusLock, digest, encode
from bench.draft.corpora.sources import CODE, SETS, Quota, choose
from bench.draft.recording.outputs import Recorder
from bench.draft.recording.tasks import FAMILIES, SPLITS, Split
from bench.draft.trace import Request
from bench.support.packages import Package, fetch, listing

_WITH_PROMPTS = {
    (family, "report")
    for family in ("human_eval_chat", "human_eval_raw", "questions", "edits", "chat", "routing")
}
"""Traces that say what recycling prompts too would be worth."""
_WHEELS = re.compile(r"(py3-none-any|(cp311-cp311|abi3)-manylinux.*x86_64)")


def main() -> int:
    """Makes what was asked for, everything by default."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.draft.recording.make", description=__doc__
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"code, {', '.join(FAMILIES)}, bigrams"
    )
    parser.add_argument("--model", default="smollm2-135m", help="model [smollm2-135m]")
    parser.add_argument(
        "--split", nargs="+", choices=SPLITS, default=SPLITS, help="splits [all of them]"
    )
    args = parser.parse_args()
    from spectrie.model import resolve

    folder = Path(resolve(args.model).folder)
    wanted = args.parts or ["code", *FAMILIES, "bigrams"]
    if "code" in wanted:
        _code(folder / "tokenizer.json")
    families = [family for family in FAMILIES if family in wanted]
    if families:
        _outputs(folder, families, args.split)
    for split in args.split:
        place = trace.folder(split)
        if "bigrams" in wanted:
            traces = (trace.read(place / f"{family}.jsonl.xz") for family in FAMILIES)
            tokens = set().union(*(tokens_of(requests) for requests in traces))
            print(f"bigrams: {len(tokens)} tokens", file=sys.stderr, flush=True)
            record_bigrams(folder, tokens, place / FILE)
        trace.write_sums(place)
    return 0


def _code(tokenizer_file: Path) -> None:
    pinned = _pinned()
    lock = {}
    for name, quotas in SETS.items():
        sources, texts = [], []
        for quota in quotas:
            package = pinned.get((quota.name, quota.sdist)) or _newest(quota)
            chosen = choose(quota, fetch(package))
            sources.append((package, tuple(member for member, _ in chosen)))
            texts += [text for _, text in chosen]
        documents = encode(texts, tokenizer_file)
        made = CorpusLock(name, tuple(sources), digest(documents))
        lock[name] = made.entry(documents)
        print(f"{name}: {len(documents)} files, {sum(map(len, documents))} tokens", file=sys.stderr)
        for split in SPLITS:
            if name == CODE[split]:
                requests = [_quarter(ids) for ids in documents]
                trace.write(trace.folder(split) / "code.jsonl.xz", requests)
    LOCK.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")


def _quarter(ids: list[int]) -> Request:
    """The first quarter of a file is the prompt."""
    return Request(ids[: len(ids) // 4], ids[len(ids) // 4 :])


def _pinned() -> dict[tuple[str, bool], Package]:
    """The packages of the lock, by name and whether an sdist; none when it does not exist yet."""
    if not LOCK.exists():
        return {}
    names = json.loads(LOCK.read_text(encoding="utf-8"))
    packages = [package for name in names for package, _ in CorpusLock.load(name).sources]
    return {(package.name, not package.file.endswith(".whl")): package for package in packages}


def _newest(quota: Quota) -> Package:
    from packaging.version import InvalidVersion, Version

    name = quota.name.replace("-", "[-_.]")
    pattern = rf"{name}-([^-]+)\.tar\.gz" if quota.sdist else rf"{name}-([^-]+)-.*\.whl"
    found = []
    for label, address in listing(quota.name):
        match = re.fullmatch(pattern, label, re.IGNORECASE)
        if not match or not (quota.sdist or _WHEELS.search(label)):
            continue
        try:
            version = Version(match[1])
        except InvalidVersion:
            continue
        if not version.is_prerelease:
            found.append((version, label, address))
    if not found:
        raise ValueError(f"the package index has no fitting file of {quota.name}")
    _, label, address = max(found)
    return Package(quota.name, label, address.partition("#sha256=")[2])


def _outputs(folder: Path, families: list[str], splits: Sequence[Split]) -> None:
    recorder = Recorder(folder)
    try:
        for split in splits:
            for family in families:
                recorded = recorder.record(family, split)
                if (family, split) not in _WITH_PROMPTS:
                    recorded = [_as_served(request) for request in recorded]
                trace.write(trace.folder(split) / f"{family}.jsonl.xz", recorded)
    finally:
        recorder.close()


def _as_served(request: Request) -> Request:
    """Without the likeliest tokens inside the prompt, which a server does not keep by default."""
    before = len(request.prompt_ids) - 1
    return replace(request, topk=[([], [])] * before + (request.topk or [])[before:])


if __name__ == "__main__":
    sys.exit(main())
