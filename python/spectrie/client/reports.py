"""What operators read of a running server's draft memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "CalibrationBin",
    "CorpusReport",
    "NamespaceReport",
    "SnapshotReport",
    "WorkerReport",
]


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """A loaded corpus.

    Attributes:
        name: Its name.
        num_tokens: Tokens in it.
        num_documents: Documents in it.
        bytes: Size of its file, which is mapped and not counted as draft memory.
        readers: Namespaces that may draft from it; None for all.
        accepted_tokens: Draft tokens from it that the model agreed with, over all workers.
        workers: Workers that have it.
    """

    name: str
    num_tokens: int
    num_documents: int
    bytes: int
    readers: tuple[str, ...] | None
    accepted_tokens: int
    workers: int


@dataclass(frozen=True, slots=True)
class NamespaceReport:
    """A namespace's learnt text, summed over workers: each holds text of its own and of the others.

    Attributes:
        name: Tenant of an API key; `default` without keys.
        num_tokens: Tokens held.
        bytes: Draft memory in use.
        accepted_tokens: Draft tokens from it that the model agreed with.
        workers: Workers that hold text of it.
    """

    name: str
    num_tokens: int
    bytes: int
    accepted_tokens: int
    workers: int


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """A snapshot that one worker wrote.

    Attributes:
        worker: Name of the worker, as in metrics and logs.
        folder: Where it is on the worker's machine.
        num_namespaces: Namespaces in it.
        num_tokens: Tokens in it.
        bytes: Its size.
    """

    worker: str
    folder: str
    num_namespaces: int
    num_tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Draft tokens of one tenth of 0 to 1 by their chance, where their parent was accepted.

    Attributes:
        trials: Tokens that were checked.
        expected: Sum of their chances.
        accepted: Those that the model agreed with.
    """

    trials: int
    expected: float
    accepted: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Totals of one worker since its start, at most a second old.

    Attributes:
        worker: Name of the worker, as in metrics and logs.
        process_id: Its process on its machine.
        running: Requests that run.
        waiting: Requests that wait inside the worker.
        steps: Forward passes.
        generated_tokens: Tokens emitted.
        drafted_tokens: Draft tokens sent through the model.
        accepted_tokens: Those that it agreed with.
        expected_accepted_tokens: Sum of the chances of the drafted tokens.
        accepted_by_source: Accepted tokens by source label.
        calibration: Ten bins, the first for chances from 0 to 0.1; empty before the first draft.
        net_gain: Tokens per time of steps that may draft, over the 1 % that may not; None until
            both were measured.
        memory_bytes: Draft memory in use.
        memory_tokens: Tokens in it.
        evicted_tokens: Tokens that gave way to newer ones.
        corpus_bytes: Size of the mapped corpora.
        recycling: Whether the model's runner-up tokens are drafted from.
    """

    worker: str
    process_id: int
    running: int
    waiting: int
    steps: int
    generated_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    expected_accepted_tokens: float
    accepted_by_source: Mapping[str, int] = field(default_factory=dict)
    calibration: tuple[CalibrationBin, ...] = ()
    net_gain: float | None = None
    memory_bytes: int = 0
    memory_tokens: int = 0
    evicted_tokens: int = 0
    corpus_bytes: int = 0
    recycling: bool = False
