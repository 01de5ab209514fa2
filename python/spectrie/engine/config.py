"""Options of a worker: one small frozen struct per part."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["EngineOptions", "LinkOptions", "MemoryOptions", "RunnerOptions", "WorkerOptions"]


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """How the model is loaded.

    Attributes:
        dtype: `auto` (by CPU feature, never by timing), `float32`, `bfloat16` or `float16`.
        device: `auto`, `cpu` or `cuda`.
        threads: CPU threads of a forward; None measures briefly and remembers.
        num_pages: Pages of the key/value cache; None follows from `kv_memory_bytes`.
        kv_memory_bytes: Bytes of the key/value cache; None follows from free memory.
        max_context: Longest prompt plus answer in tokens; None is the model's own limit.
        tensor_parallel: Processes that share the model, this one included.
    """

    dtype: str = "auto"
    device: str = "auto"
    threads: int | None = None
    num_pages: int | None = None
    kv_memory_bytes: int | None = None
    max_context: int | None = None
    tensor_parallel: int = 1


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How requests are scheduled and drafts are grown.

    Attributes:
        speculation: `auto` (calibrated scores, budget by measured cost), `off`, `bfs`, `prob`, or
            `tiers` (calibrated scores; 0, 1, 3 or 7 tokens by how many were accepted lately).
        max_draft_tokens: At most this many draft tokens per request and step, 0 to 63.
        min_match: Shortest match that may draft, in tokens.
        max_match: Longest match tried by the fixed modes, in tokens.
        min_breadth: Fewest children of a node in the fixed modes.
        max_breadth: Most children of a node in the fixed modes.
        max_depth: Deepest draft, in tokens.
        chunk_tokens: Longest prompt chunk of one step.
        max_batch_rows: Most rows of one forward.
        max_step_ms: Milliseconds that a step may take where prompts are computed beside running answers:
            their share of it shrinks, to one page at least.
        age_s: Seconds of waiting that make up for one level of priority.
        lookahead_tokens: Tokens by which each running request is expected to grow: another one is let in
            where there is room for them.
        max_running: Most requests that run at once; None follows from the cache's size.
        memory_bytes: Budget of the draft memory.
        recycle: After which rows drafts learn the model's likeliest tokens: `off`, `decode` (every
            sampled row) or `all` (prompt rows too).
        bigrams: Whether drafts use what the model says after one token alone, computed in idle time:
            `auto` or `off`.
        holdout_every: One step in this many drafts nothing, which keeps the reported gain honest.
        overlap: Whether a thread learns and takes requests in while a forward runs: `on`, `off`, or
            `auto`, where the forward leaves a core for it.
    """

    speculation: str = "auto"
    max_draft_tokens: int = 16
    min_match: int = 1
    max_match: int = 16
    min_breadth: int = 1
    max_breadth: int = 10
    max_depth: int = 18
    chunk_tokens: int = 256
    max_batch_rows: int = 512
    max_step_ms: float = 200.0
    age_s: float = 10.0
    lookahead_tokens: int = 64
    max_running: int | None = None
    memory_bytes: int = 256 << 20
    recycle: str = "decode"
    bigrams: str = "auto"
    holdout_every: int = 100
    overlap: str = "off"


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """What draft memory starts with, and where it outlives the process.

    Attributes:
        corpora: Names or paths of built corpora that every namespace may read.
        state_folder: Where its snapshots are, this worker's alone; None keeps no text on disk.
        snapshot_every_s: Seconds between two snapshots; 0 writes one at the drain alone.
    """

    corpora: tuple[str, ...] = ()
    state_folder: Path | None = None
    snapshot_every_s: float = 300.0


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How a worker reaches its router.

    Attributes:
        target: `unix:PATH` or `HOST:PORT` of the router's worker listener.
        token: Secret of a TCP listener; None for a Unix socket.
        model_name: Name clients write; None is the name of the model itself.
        backoff_s: First pause after a failed dial; doubles up to `max_backoff_s`.
        max_backoff_s: Longest pause between two dials.
    """

    target: str
    token: str | None = None
    model_name: str | None = None
    backoff_s: float = 0.5
    max_backoff_s: float = 30.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Everything a worker process needs.

    Attributes:
        model: Folder, `.gguf` file, alias or Hugging Face id.
        link: Where its router is.
        runner: How the model is loaded.
        engine: How requests are scheduled.
        memory: What draft memory starts with, and where it outlives the process.
        health_address: Where grpc.health is served; None serves none.
        drain_s: How long a drain waits for running requests.
    """

    model: str
    link: LinkOptions
    runner: RunnerOptions = field(default_factory=RunnerOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    health_address: str | None = None
    drain_s: float = 600.0
