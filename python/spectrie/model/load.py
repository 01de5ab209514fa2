"""Loads a runner; imports nothing heavy before it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectrie.model.runner.runner import Runner

__all__ = ["load_runner"]


def load_runner(
    folder: str | Path,
    *,
    dtype: str = "auto",
    device: str = "auto",
    gpu_arithmetic: str = "auto",
    threads: int | None = None,
    num_pages: int | None = None,
    kv_memory_bytes: int | None = None,
    max_context: int | None = None,
    max_batch_rows: int | None = None,
    drafter: str | Path | Sequence[str | Path] = "off",
    tensor_parallel: int = 1,
    rank_timeout_s: float = 30.0,
    progress: Callable[[str], None] | None = None,
) -> Runner:
    """Loads a model folder and prepares it to run.

    Args:
        folder: Hugging Face layout: `config.json` and safetensors.
        dtype: `float32`, `bfloat16`, `float16` (GPU), or `auto`: bfloat16 where the CPU multiplies it
            natively (AVX512-BF16 or AMX) and on a GPU, else float32.
        device: `cpu`, `cuda`, or `auto`: a GPU if there is one.
        gpu_arithmetic: Arithmetic on a GPU: `fast`; `exact`: rows do not depend on one another, which is
            checked at the start; or `auto`: exact where that is possible, else fast. A CPU is always
            exact.
        threads: CPU threads; by default the fastest count, measured once and kept on disk.
        num_pages: Pages of 16 tokens in the key-value cache; takes precedence over `kv_memory_bytes`.
        kv_memory_bytes: Size of that cache; by default 40 % of the free memory, at most 32 full
            contexts; on a GPU 90 %, at most 256.
        max_context: Maximum prompt plus answer, in tokens; by default the model's limit, or what fits
            the cache.
        max_batch_rows: Maximum rows of one forward; by default 512, on a GPU 4096.
        drafter: Folder of a drafter trained for this model: `config.json` and safetensors; a model of the same
            tokenizer, as `resolve` takes it; `mtp`: the layer for multi-token prediction in the model's own
            folder; `auto`: that layer, else the head that ships for these weights, else none; or `off`. In one
            process. Several in a sequence; on a GPU one, and some kinds are refused by name.
        tensor_parallel: Processes that share the model, including this one. Each holds a slice of
            every product; the tokens do not depend on it. Call the runner's `close` at the end.
        rank_timeout_s: Seconds the processes wait for each other in a forward before they give up.
        progress: Receives one line per stage.

    Raises:
        ConfigError: An argument is out of range, or the machine cannot satisfy it.
        ModelError: The model cannot be read or is not supported.
        RankLost: One of several processes ended while loading.
    """
    from spectrie.model.runner.loading import LoadOptions, load

    named = [str(drafter)] if isinstance(drafter, str | Path) else [str(one) for one in drafter]
    options = LoadOptions(
        Path(folder),
        dtype=dtype,
        device=device,
        gpu_arithmetic=gpu_arithmetic,
        threads=threads,
        num_pages=num_pages,
        kv_memory_bytes=kv_memory_bytes,
        max_context=max_context,
        max_batch_rows=max_batch_rows,
    )
    return load(
        options,
        drafters=named,
        tensor_parallel=tensor_parallel,
        rank_timeout_s=rank_timeout_s,
        progress=progress,
    )
