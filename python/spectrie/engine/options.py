"""Options of an engine in this process. Generated from rust/types/src/options by `make generate`: do not edit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ENGINE", "HOST", "MODEL", "EngineOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How a model is loaded, requests are scheduled and drafts are grown.

    Attributes:
        device: Device that runs the model.
        dtype: Number format of the weights; auto goes by CPU features, never by timing.
        gpu_arithmetic: Arithmetic of a model on a GPU; on a CPU it is always exact. `exact`: equal
            requests and seeds get equal answers, by kernels whose rows do not depend on one
            another, which is checked at the start. `fast`: each token is the model's own draw,
            drafted or not, but answers may differ. `auto`: exact where that is possible, else fast
            with a warning.
        drafter: Folder of a drafter trained for the model, such as an EAGLE-3 head; the name of a
            head that ships, such as smollm2-135m-eagle3; a model of the same tokenizer, named as
            MODEL is; mtp: the layer for multi-token prediction in the model's own folder; auto:
            that layer, else the head that ships for exactly these weights, else none; off: none;
            repeat for up to four. On a CPU, or on one GPU, there one alone. Tokens do not depend on
            it. Of several, a step asks the one that is worth most; modes tiers, eagle2 and chain
            ask the first.
        threads: Threads per worker, or per rank of a worker. 1 or more. None: measured once.
        tensor_parallel: Processes (on GPUs: devices) that share the model of each worker; tokens do
            not depend on it. 1 or more processes.
        max_context: Maximum length of prompt plus answer. 1 or more tokens. None: the model's, as
            far as memory allows.
        kv_memory_bytes: Memory for keys and values, per worker. In bytes. None: by free memory.
        num_pages: Pages of the key/value cache, instead of `kv_memory_bytes`. 1 or more pages.
        max_held: Maximum requests held, running and waiting; `submit` refuses more. 1 or more
            requests.
        waiting_bytes: Maximum memory of prompts that wait, 4 bytes a token; further requests are
            refused. One request may always wait. In bytes.
        lookahead_tokens: Tokens by which each running request is expected to grow before others
            end; a request is admitted while all have room for them. 0 or more tokens.
        holdout_every: One step in this many drafts nothing, to measure the net gain of drafts; 0 =
            none. 0 or more steps.
        max_step_ms: Maximum time of a step that computes prompts while other requests generate. The
            prompts' share of the step shrinks to keep it, by the measured costs, down to one page.
            Above 0 milliseconds.
        max_slowdown: How many times as long tenants ahead of their share may make the steps of
            others, on average. Limits their long prompts, long contexts and drafts. More serves
            these sooner. Where those ahead are less than a sixth of all tenants, they may add less
            in proportion. Above 1.
        age_s: Waiting time that raises a request by one priority level among those of its tenant.
            Above 0 seconds.
        speculation: How draft trees are grown, unless a request says otherwise. `auto`: calibrated
            scores, and as many tokens as the measured cost of a step justifies; `off`: no drafts;
            `bfs` and `prob`: fixed trees, newest or likeliest continuation first; `tiers`:
            calibrated scores, and 0, 1, 3 or 7 tokens by how many were accepted lately; `eagle2`
            and `chain`: fixed trees of a drafter alone, EAGLE-2's or a chain.
        max_draft_tokens: Maximum draft tokens per request and step. 0 to 63 tokens.
        drafting_cost_ms: Assumed time of asking a request for drafts; measured if not set. With a
            set time, what is drafted does not depend on the clock, and drafting does not stop where
            it is measured to be slower than none. For replays and tests. 0 or more milliseconds.
            None: measured.
        memory_bytes: Draft memory of each worker; 0 keeps none. In bytes.
        corpus_memory_bytes: Memory of each worker for corpora: what does not fit is read from disk
            again. In bytes.
        max_namespaces: Maximum namespaces in draft memory; a new one replaces the one idle longest.
            1 or more namespaces.
        recycle: After which rows the model's runner-up tokens become drafts. `decode`: every
            sampled row; `all`: rows of prompts too, which makes prefill slower.
        min_match: Minimum length of a match, in modes bfs and prob. 1 to 64 tokens.
        max_match: Maximum length of a match, in modes bfs and prob. 1 to 64 tokens.
        min_breadth: Minimum children of a draft node, in modes bfs and prob. 1 to 63.
        max_breadth: Maximum children of a draft node, in modes bfs and prob. 1 to 63.
        head_steps: Levels that a drafter is asked in each step, in modes eagle2 and chain. 1 to 63
            levels.
        head_top_k: Nodes of a level that a drafter is asked about, and tokens taken of each answer,
            in mode eagle2. 1 to 8 tokens.
        max_depth: Maximum depth of a draft tree. 1 to 63 tokens.
        max_running: Maximum requests running at once. 1 or more requests. None: by device and free
            memory.
        chunk_tokens: Maximum prompt tokens computed in one step, over all requests. 1 or more
            tokens. None: 256, on a GPU 2048.
        max_batch_rows: Maximum rows of one step. 1 or more rows. None: 512, on a GPU 4096.
        overlap: Insert text on a background thread while the model runs; auto: if a core is free.
        bigrams: Draft from the model's bigrams, computed once in idle time.
        corpora: Built corpus to draft from, by name or path; repeat for several.
        state_dir: Folder that keeps draft memory and added corpora across restarts; without it no
            text reaches the disk.
        snapshot_every_s: Time between snapshots of draft memory in --state-dir; 0 writes one at
            shutdown only. 0 or more seconds.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    gpu_arithmetic: Literal["auto", "exact", "fast"] = "auto"
    drafter: tuple[str, ...] = ()
    threads: int | None = None
    tensor_parallel: int = 1
    max_context: int | None = None
    kv_memory_bytes: int | None = None
    num_pages: int | None = None
    max_held: int = 4096
    waiting_bytes: int = 256 << 20
    lookahead_tokens: int = 64
    holdout_every: int = 100
    max_step_ms: float = 200.0
    max_slowdown: float = 1.2
    age_s: float = 10.0
    speculation: Literal["auto", "off", "bfs", "prob", "tiers", "eagle2", "chain"] = "auto"
    max_draft_tokens: int = 16
    drafting_cost_ms: float | None = None
    memory_bytes: int = 256 << 20
    corpus_memory_bytes: int = 1024 << 20
    max_namespaces: int = 1024
    recycle: Literal["off", "decode", "all"] = "decode"
    min_match: int = 1
    max_match: int = 16
    min_breadth: int = 1
    max_breadth: int = 10
    head_steps: int = 5
    head_top_k: int = 8
    max_depth: int = 18
    max_running: int | None = None
    chunk_tokens: int | None = None
    max_batch_rows: int | None = None
    overlap: Literal["auto", "on", "off"] = "off"
    bigrams: Literal["auto", "off"] = "auto"
    corpora: tuple[str, ...] = ()
    state_dir: str | None = None
    snapshot_every_s: float = 300.0

    def pick(self, names: Iterable[str]) -> dict[str, Any]:
        """The options of these names."""
        return {name: getattr(self, name) for name in names}


MODEL = (
    "device",
    "dtype",
    "gpu_arithmetic",
    "drafter",
    "threads",
    "tensor_parallel",
    "max_context",
    "kv_memory_bytes",
    "num_pages",
)
"""Options of how the model is loaded."""
ENGINE = (
    "max_held",
    "waiting_bytes",
    "lookahead_tokens",
    "holdout_every",
    "max_step_ms",
    "max_slowdown",
    "age_s",
    "speculation",
    "max_draft_tokens",
    "drafting_cost_ms",
    "memory_bytes",
    "corpus_memory_bytes",
    "max_namespaces",
    "recycle",
    "min_match",
    "max_match",
    "min_breadth",
    "max_breadth",
    "head_steps",
    "head_top_k",
    "max_depth",
)
"""Options that the engine takes as they are."""
HOST = (
    "max_running",
    "chunk_tokens",
    "max_batch_rows",
    "overlap",
    "bigrams",
    "corpora",
    "state_dir",
    "snapshot_every_s",
)
"""Options that the engine's host decides by."""
