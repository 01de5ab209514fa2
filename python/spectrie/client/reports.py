"""Reports about a running server's draft memory and workers, for operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "CalibrationBin",
    "CorpusReport",
    "DrainReport",
    "LoadReport",
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
        bytes: Size of its file, which is not counted as draft memory.
        readers: Namespaces that may draft from it; None for all.
        accepted_tokens: Draft tokens from it that the model accepted, over all workers.
        workers: Number of workers that have it.
        lost_blocks: Blocks of 64 KiB of its file that were damaged or cut off.
        first_loss: The first of them and what was found there; None if there is none.
    """

    name: str
    num_tokens: int
    num_documents: int
    bytes: int
    readers: tuple[str, ...] | None
    accepted_tokens: int
    workers: int
    lost_blocks: int = 0
    first_loss: str | None = None


@dataclass(frozen=True, slots=True)
class NamespaceReport:
    """A namespace's learned text, summed over workers; each holds text of all workers.

    Attributes:
        name: Tenant of an API key, or `default` without keys; `TENANT/NAME`, or without keys `NAME`,
            where a client named it.
        num_tokens: Tokens held.
        bytes: Draft memory in use.
        accepted_tokens: Draft tokens from it that the model accepted.
        workers: Number of workers that hold text of it.
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
        bytes: Size of its files.
        written_bytes: What this save wrote of them; 0 if nothing was new.
    """

    worker: str
    folder: str
    num_namespaces: int
    num_tokens: int
    bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Draft tokens in one tenth of expected acceptance, counted where their parent was accepted.

    Attributes:
        trials: Tokens that were checked.
        expected: Sum of their probabilities.
        accepted: How many the model accepted.
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
        running: Running requests.
        waiting: Requests waiting inside the worker.
        steps: Forward passes.
        generated_tokens: Tokens emitted.
        drafted_tokens: Draft tokens sent to the model.
        accepted_tokens: Draft tokens that the model accepted.
        expected_accepted_tokens: Sum of the probabilities of the drafted tokens.
        accepted_by_source: Accepted tokens by source label.
        calibration: Ten bins, the first for probabilities up to 0.1; empty before the first draft.
        net_gain: Tokens per second of steps that may draft, over those of the 1 % held out; None
            until enough were held out.
        memory_bytes: Draft memory in use.
        memory_tokens: Tokens in it.
        evicted_tokens: Tokens evicted to make room.
        corpus_bytes: Size of the files of the corpora.
        recycling: Whether the model's runner-up tokens are a draft source.
        dropped_by_reason: Tokens that draft memory dropped or did not take, by reason; as in the
            metric `spectrie_memory_dropped_tokens_total`.
        lost_corpus_blocks: Blocks of 64 KiB of the corpora that were damaged or cut off.
        net_gain_low: Lower end of the 95 % interval of `net_gain`.
        net_gain_high: Upper end of it.
        holdout_steps: Steps held out for it.
        draft_seconds: Time between forwards that drafting took.
        learn_seconds: Time between forwards that keeping drafters and draft memory up to date took.
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
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    lost_corpus_blocks: int = 0
    net_gain_low: float | None = None
    net_gain_high: float | None = None
    holdout_steps: int = 0
    draft_seconds: float = 0.0
    learn_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A worker and what it has to do now.

    Attributes:
        worker: Name of the worker, as in metrics and logs.
        process_id: Its process on its machine.
        model: Served model name.
        is_draining: Whether it takes no new requests and ends with those it runs.
        choices: Completions that it was given and that have not ended.
        max_running: Completions that it runs at once.
        waiting: Completions that wait inside it; like what follows at most a second old.
        pages_used: Pages of its cache that requests hold.
        pages_total: All pages of its cache.
        steps: Forward passes since its start.
    """

    worker: str
    process_id: int
    model: str
    is_draining: bool
    choices: int
    max_running: int
    waiting: int
    pages_used: int
    pages_total: int
    steps: int


@dataclass(frozen=True, slots=True)
class DrainReport:
    """The end of a worker that drained.

    Attributes:
        worker: Name of the worker.
        handed_over: Completions that it still ran, which go on elsewhere.
    """

    worker: str
    handed_over: int
