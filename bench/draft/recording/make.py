"""Made the frozen traces: `python -m bench.draft.recording.make [code|outputs ...] --tune FOLDER`.

The bench never runs this: comparing means replaying the committed ids. Files of the tuning split
are not committed; they go to the folder named with `--tune`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from bench.draft import trace
from bench.draft.bigrams import FILE, record_bigrams, tokens_of
from bench.draft.corpora.corpus import LOCK, CorpusLock, digest, encode, write_ids
from bench.draft.corpora.sources import SETS, Quota, choose
from bench.draft.recording.outputs import Recorder
from bench.draft.recording.tasks import FAMILIES
from bench.draft.trace import Request
from bench.support.packages import Package, cache_folder, fetch, listing

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
        "--tune", type=Path, default=cache_folder() / "tune", help="folder of the tuning split"
    )
    args = parser.parse_args()
    from spectrie.model import resolve

    folder = Path(resolve(args.model).folder)
    args.tune.mkdir(parents=True, exist_ok=True)
    wanted = args.parts or ["code", *FAMILIES, "bigrams"]
    if "code" in wanted:
        _code(folder / "tokenizer.json", args.tune)
    families = [family for family in FAMILIES if family in wanted]
    if families:
        _outputs(folder, families, args.tune)
    if "bigrams" in wanted:
        for place in (args.tune, trace.TRACES):
            traces = (trace.read(place / f"{family}.jsonl.xz") for family in FAMILIES)
            tokens = set().union(*(tokens_of(requests) for requests in traces))
            print(f"bigrams: {len(tokens)} tokens", file=sys.stderr, flush=True)
            record_bigrams(folder, tokens, place / FILE)
    trace.write_sums()
    return 0


def _code(tokenizer_file: Path, tune: Path) -> None:
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
        if name == "code":
            trace.write(trace.TRACES / "code.jsonl.xz", [_quarter(ids) for ids in documents])
            continue
        write_ids(tune / f"{name}.u32", documents)
        if name == "tune":
            trace.write(tune / "code.jsonl.xz", [_quarter(ids) for ids in documents])
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


def _outputs(folder: Path, families: list[str], tune: Path) -> None:
    recorder = Recorder(folder)
    try:
        for family in families:
            trace.write(tune / f"{family}.jsonl.xz", recorder.record(family, "tune"))
            trace.write(trace.TRACES / f"{family}.jsonl.xz", recorder.record(family, "test"))
    finally:
        recorder.close()


if __name__ == "__main__":
    sys.exit(main())
