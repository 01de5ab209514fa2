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
        device: Where the model runs.
        dtype: Number format of the weights; auto goes by CPU features, never by timing.
        threads: Threads per worker, or per rank of one. 1 or more. None: measured once.
        tensor_parallel: Processes (on GPUs: devices) that share the model of each worker; tokens do
            not depend on it. 1 or more processes.
        max_context: Longest prompt plus answer. 1 or more tokens. None: the model's, as far as
            memory allows.
        kv_memory_bytes: Memory for keys and values, per worker. In bytes. None: by free memory.
        num_pages: Pages of the key/value cache, instead of `kv_memory_bytes`. 1 or more pages.
        max_held: Most requests held, running and waiting; more are refused by `submit`. 1 or more
            requests.
        max_batch_rows: Most rows of one step. 1 or more rows.
        lookahead_tokens: Tokens that each running request is expected to grow by before others end:
            another request is admitted while there is room for those. 0 or more tokens.
        holdout_every: One step in this many drafts nothing, so that the net gain of drafts is
            measured; 0 = none. 0 or more steps.
        chunk_tokens: Longest piece of a prompt computed in one step, over all requests. 1 or more
            tokens.
        max_step_ms: Longest step that computes prompts while other requests generate. The prompts'
            share of the step shrinks, by the measured costs, to one page at least. Above 0
            milliseconds.
        age_s: Waiting time that makes up for one level of priority. Above 0 seconds.
        speculation: How draft trees are grown, unless a request says otherwise. `auto`: calibrated
            scores, and as many tokens as the measured cost of a step justifies; `off`: no drafts;
            `bfs` and `prob`: fixed trees, newest or likeliest continuation first; `tiers`:
            calibrated scores, and 0, 1, 3 or 7 tokens by how many were accepted lately.
        max_draft_tokens: Most draft tokens of one request and step. 0 to 63 tokens.
        memory_bytes: Draft memory of each worker; 0 keeps none. In bytes.
        recycle: After which rows the model's runner-up tokens become drafts. `decode`: every
            sampled row; `all`: rows of prompts too, which makes prefill slower.
        min_match: Shortest match that drafts, in modes bfs and prob. 1 to 64 tokens.
        max_match: Longest match that is looked for, in modes bfs and prob. 1 to 64 tokens.
        min_breadth: Fewest children of a draft node, in modes bfs and prob. 1 to 63.
        max_breadth: Most children of a draft node, in modes bfs and prob. 1 to 63.
        max_depth: Longest path of a draft tree. 1 to 63 tokens.
        max_running: Requests computed at the same time. 1 or more requests. None: by free memory.
        overlap: Learn on a thread of its own while the model runs; auto: where a core is left.
        bigrams: Draft from what the model predicts after one token alone, computed once in idle
            time.
        corpora: Built corpus to draft from, by name or path; repeat for several.
        state_dir: Folder for draft memory and added corpora that outlive a restart; without it no
            text reaches the disk.
        snapshot_every_s: Time between two snapshots of draft memory in --state-dir; 0 writes one at
            the end alone. 0 or more seconds.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    threads: int | None = None
    tensor_parallel: int = 1
    max_context: int | None = None
    kv_memory_bytes: int | None = None
    num_pages: int | None = None
    max_held: int = 4096
    max_batch_rows: int = 512
    lookahead_tokens: int = 64
    holdout_every: int = 100
    chunk_tokens: int = 256
    max_step_ms: float = 200.0
    age_s: float = 10.0
    speculation: Literal["auto", "off", "bfs", "prob", "tiers"] = "auto"
    max_draft_tokens: int = 16
    memory_bytes: int = 256 << 20
    recycle: Literal["off", "decode", "all"] = "decode"
    min_match: int = 1
    max_match: int = 16
    min_breadth: int = 1
    max_breadth: int = 10
    max_depth: int = 18
    max_running: int | None = None
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
    "threads",
    "tensor_parallel",
    "max_context",
    "kv_memory_bytes",
    "num_pages",
)
"""Options of how the model is loaded."""
ENGINE = (
    "max_held",
    "max_batch_rows",
    "lookahead_tokens",
    "holdout_every",
    "chunk_tokens",
    "max_step_ms",
    "age_s",
    "speculation",
    "max_draft_tokens",
    "memory_bytes",
    "recycle",
    "min_match",
    "max_match",
    "min_breadth",
    "max_breadth",
    "max_depth",
)
"""Options that the engine takes as they are."""
HOST = (
    "max_running",
    "overlap",
    "bigrams",
    "corpora",
    "state_dir",
    "snapshot_every_s",
)
"""Options that the engine's host decides by."""
