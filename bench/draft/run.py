"""Replays every condition, each contender in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.draft import trace
from bench.draft.bigrams import read_bigrams
from bench.draft.conditions import CONDITIONS, Condition
from bench.draft.corpora.corpus import CorpusLock
from bench.draft.ours import Recycle, build_corpus, replay_ours
from bench.draft.rivals.base import Absent, Setup
from bench.draft.rivals.contenders import Contender
from bench.draft.trace import TRACES, Request
from bench.draft.walk import replay

__all__ = ["OURS", "OURS_PLAIN", "SUBSETS", "Results", "has_prompt_rows", "priced", "run_all"]

OURS = "spectrie"
"""With the options that ship."""
OURS_PROMPTS = "spectrie, prompts recycled"
OURS_PLAIN = "spectrie, text only"
OURS_WITHOUT_BIGRAMS = "spectrie, without bigrams"
OURS_WITHOUT_RECYCLED = "spectrie, without recycled answers"
SUBSETS = (OURS_PLAIN, OURS_WITHOUT_BIGRAMS, OURS_WITHOUT_RECYCLED)
"""Ours with some of its sources."""
NODES = 16
Results = dict[str, dict[str, dict[str, dict[str, Any]]]]
"""Report by condition, trace and contender; `{"absent": why}` where there is none."""
_EMPTY_CALLS = 2000


def priced(price: float, ours: str = OURS) -> str:
    """Name of one of ours at a price."""
    return f"{ours}, price {price:g}"


def run_all(tokenizer_file: Path) -> Results:
    """Replays everything; counts do not depend on the machine, times do."""
    trace.verify()
    results: Results = {}
    sets = {name for condition in CONDITIONS for name in condition.corpora}
    corpora = {name: CorpusLock.load(name).documents(tokenizer_file) for name in sorted(sets)}
    with tempfile.TemporaryDirectory(prefix="spectrie-draft-") as folder:
        built = {name: build_corpus(name, texts, Path(folder)) for name, texts in corpora.items()}
        for condition in CONDITIONS:
            began = time.monotonic()
            print(f"{condition.name}: {condition.title}", file=sys.stderr)
            results[condition.name] = _condition(condition, corpora, built)
            print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr)
    return results


def _condition(
    condition: Condition, corpora: dict[str, list[list[int]]], built: dict[str, Path]
) -> dict[str, dict[str, dict[str, Any]]]:
    traces = {name: trace.read(TRACES / f"{name}.jsonl.xz") for name in condition.traces}
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in traces}
    files = [built[name] for name in condition.corpora]
    documents = [corpora[name] for name in condition.corpora]
    ours = partial(_ours, traces, condition, files)
    forms = {OURS: ours}
    answered = {name: requests for name, requests in traces.items() if requests[0].topk}
    if answered:
        # The text of files is drafted from text alone as it is.
        part = partial(_ours, answered, condition, files)
        forms |= {
            OURS_WITHOUT_BIGRAMS: partial(part, bigrams=False),
            OURS_WITHOUT_RECYCLED: partial(part, recycle="off"),
            OURS_PLAIN: partial(part, bigrams=False, recycle="off"),
        }
    jobs: dict[str, Callable[[], dict[str, Any]]] = dict(forms)
    prompted = {name: requests for name, requests in traces.items() if has_prompt_rows(requests)}
    if prompted:
        jobs[OURS_PROMPTS] = partial(_ours, prompted, condition, files, recycle="all")
    for price in condition.prices:
        for name, form in forms.items():
            jobs[priced(price, name)] = partial(form, price=price)
    for rival in condition.rivals:
        jobs[rival.name] = lambda rival=rival: _rival(rival, traces, condition, documents)  # type: ignore[misc]
    for number, (name, job) in enumerate(jobs.items(), 1):
        print(f"  {number}/{len(jobs)} {name}", file=sys.stderr, flush=True)
        reports = _in_child(job)
        for trace_name in traces:
            if trace_name in reports:
                found[trace_name][name] = reports[trace_name]
            elif "absent" in reports:
                found[trace_name][name] = reports
    return found


def has_prompt_rows(requests: list[Request]) -> bool:
    """Whether a trace knows what the model answered inside of prompts, not behind them alone."""
    return any(
        ids
        for request in requests
        if request.topk is not None
        for ids, _ in request.topk[: len(request.prompt_ids) - 1]
    )


def _ours(
    traces: dict[str, list[Request]],
    condition: Condition,
    files: list[Path],
    *,
    price: float = 0.0,
    recycle: Recycle = "decode",
    bigrams: bool = True,
) -> dict[str, Any]:
    table = read_bigrams() if bigrams else None
    return {
        name: replay_ours(
            requests,
            nodes=NODES,
            price=price,
            online=condition.online,
            corpora=files,
            recycle=recycle,
            # The text of a file is no answer of the model: it is drafted from text alone.
            bigrams=table if requests[0].topk else None,
        )
        for name, requests in traces.items()
    }


def _rival(
    contender: Contender,
    traces: dict[str, list[Request]],
    condition: Condition,
    corpora: list[list[list[int]]],
) -> dict[str, Any]:
    setup = Setup(nodes=NODES, online=condition.online)
    reports: dict[str, Any] = {}
    inserted: dict[str, float] = {}
    try:
        rival = contender.make(setup)
        before, began = _resident_bytes(), time.perf_counter()
        num_tokens = 0
        for documents in corpora:
            rival.insert(documents)
            num_tokens += sum(map(len, documents))
        if num_tokens:
            seconds = time.perf_counter() - began
            inserted = {
                "insert_tokens_per_second": num_tokens / seconds,
                "bytes_per_token": (_resident_bytes() - before) / num_tokens,
            }
    except Absent as absent:
        return {"absent": str(absent)}
    for name, requests in traces.items():
        try:
            reports[name] = replay(rival, requests, setup).report() | inserted
        except Absent as absent:
            reports[name] = {"absent": str(absent)}
            continue
        calls = []
        for _ in range(_EMPTY_CALLS):
            called = time.perf_counter_ns()
            rival.empty_call()
            calls.append(time.perf_counter_ns() - called)
        reports[name]["empty_call_us"] = sorted(calls)[_EMPTY_CALLS // 2] / 1e3
    return reports


def _in_child(job: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Runs a job in a fork: its memory is its own, and a crash of a rival ends nothing else."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, job))
    process.start()
    sender.close()
    try:
        reports: dict[str, Any] = receiver.recv()
    except EOFError:
        reports = {"absent": "its process ended without a result"}
    process.join()
    if "failed" in reports:
        raise RuntimeError(reports["failed"])
    return reports


def _send(sender: Connection, job: Callable[[], dict[str, Any]]) -> None:
    try:
        sender.send(job())
    except Exception as error:  # It is raised again in the parent.
        sender.send({"failed": f"{type(error).__name__}: {error}"})
    finally:
        sender.close()


def _resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
