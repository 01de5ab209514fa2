"""Starts a model in a fresh process and prints what that took: one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

KV_BYTES = 64 << 20
"""Of the key/value cache: small, so that an answer touches all of it (huge pages of 2 MiB)."""


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not say how much anonymous memory a process has")


def main(folder: str, dtype: str, threads: int) -> None:
    began = time.perf_counter()
    import torch  # noqa: F401 - the time of this import is what is measured

    torch_s = time.perf_counter() - began
    base = anonymous_bytes()
    began = time.perf_counter()
    from spectrie import LLM

    options: dict[str, Any] = {"dtype": dtype, "threads": threads, "bigrams": "off"}
    with LLM(folder, kv_memory_bytes=KV_BYTES, **options) as llm:
        ready_s = time.perf_counter() - began
        ready = anonymous_bytes()
        answer = llm.generate("The capital of France is", max_tokens=256, ignore_eos=True)
        used = anonymous_bytes()
    facts = {
        "import_torch_s": torch_s,
        "ready_s": ready_s,
        "bytes_ready": ready - base,
        "bytes_used": used - base,
        "bytes_of_cache": KV_BYTES,
        "bytes_of_torch": base,
        "tokens": len(answer.token_ids),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
