"""Options that `LLM` takes as keywords. Generated from rust/types/src/options by `make generate`: do not edit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

__all__ = ["EngineKeywords"]


class EngineKeywords(TypedDict, total=False):
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
        max_running: Maximum requests running at once. 1 or more requests. None: by device and free
            memory.
        chunk_tokens: Maximum prompt tokens computed in one step, over all requests. 1 or more
            tokens. None: 256, on a GPU 2048.
        bigrams: Draft from the model's bigrams, computed once in idle time.
        corpora: Built corpus to draft from, by name or path; repeat for several.
        state_dir: Folder that keeps draft memory and added corpora across restarts; without it no
            text reaches the disk.
    """

    device: str
    dtype: str
    gpu_arithmetic: Literal["auto", "exact", "fast"]
    drafter: str | Path | Sequence[str | Path]
    threads: int | None
    tensor_parallel: int
    max_context: int | None
    kv_memory_bytes: int | None
    num_pages: int | None
    speculation: Literal["auto", "off", "bfs", "prob", "tiers", "eagle2", "chain"] | bool
    max_draft_tokens: int
    drafting_cost_ms: float | None
    memory_bytes: int
    corpus_memory_bytes: int
    max_running: int | None
    chunk_tokens: int | None
    bigrams: Literal["auto", "off"]
    corpora: Sequence[str | Path]
    state_dir: str | Path | None
