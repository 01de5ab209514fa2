"""Plain decoding, one request at a time: ours against transformers, same weights and threads."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import machine, report
from bench.pairs import compare
from bench.rival import Rival
from tests.prompts import load

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["run"]

FLOORS = {"float32": 1.8, "bfloat16": 1.25}
"""Least ratio to transformers, unless SHARE_FLOOR of the bandwidth limit is reached."""
SHARE_FLOOR = 0.6
_BYTES = {"float32": 4, "bfloat16": 2}


def run(model: str, *, pairs: int, max_tokens: int, threads: int) -> None:
    """Measures fp32, and bf16 where the processor has it, and writes `bench/results/decode.*`."""
    from spectrie import LLM
    from spectrie.model import resolve

    folder = resolve(model).folder
    bandwidth = machine.read_bandwidth(threads)
    facts = machine.facts(threads=threads, read_gb_per_s=round(bandwidth / 1e9, 1))
    dtypes = ["float32", *(["bfloat16"] if facts["bf16_instructions"] else [])]
    rows, data = [], {}
    for dtype in dtypes:
        rival = Rival(folder, dtype, threads)
        with LLM(folder, dtype=dtype, threads=threads, speculation=False) as llm:
            result = _measure(llm, rival, dtype, pairs, max_tokens)
        limit = bandwidth / (_parameters(folder) * _BYTES[dtype])
        share = result["ours_median"] / limit
        result |= {"limit": limit, "share_of_limit": share, "floor": FLOORS[dtype]}
        if result["verdict"] != "met" and share >= SHARE_FLOOR:
            result["verdict"] = "met by bandwidth"
        data[dtype] = result
        rows.append(_row(dtype, result))
    header = ["dtype", "transformers tok/s", "spectrie tok/s", "ratio", "95 %"]
    header += ["limit tok/s", "share", "same tokens", f"floor {_floors(dtypes)}"]
    notes = [
        f"Decoding alone, {max_tokens} tokens after the first, batch 1, {threads} threads;"
        f" limit = measured read bandwidth ({bandwidth / 1e9:.1f} GB/s) over weight bytes."
    ]
    report.write("decode", "Plain decoding, batch 1", facts, header, rows, data, notes)


def _measure(llm: LLM, rival: Rival, dtype: str, pairs: int, max_tokens: int) -> dict[str, Any]:
    prompts = [
        llm.tokenizer.encode(llm.tokenizer.apply_chat_template(prompt.messages or []))
        for prompt in load("chat")
    ]
    same = [_same(llm, rival, ids, max_tokens) for ids in prompts]

    def theirs(ids: list[int]) -> float:
        tokens, seconds, _ = rival.run(ids, max_tokens, fixed=True)
        return (len(tokens) - 1) / seconds

    comparison = compare(
        [lambda ids=ids: theirs(ids) for ids in prompts],  # type: ignore[misc]
        [lambda ids=ids: _ours(llm, ids, max_tokens)[1] for ids in prompts],  # type: ignore[misc]
        pairs=pairs,
        title=f"decode {dtype}",
    )
    return {
        **comparison.summary(),
        "verdict": comparison.verdict(FLOORS[dtype]),
        "same_tokens": sum(same),
        "prompts": len(prompts),
        "prompt_tokens_median": statistics.median(len(ids) for ids in prompts),
    }


def _ours(llm: LLM, ids: list[int], max_tokens: int) -> tuple[list[int], float]:
    """Tokens, and tokens per second from the first delta to the last."""
    first = last = 0.0
    tokens: list[int] = []
    with llm.stream(
        prompt_token_ids=ids, max_tokens=max_tokens, temperature=0.0, ignore_eos=True
    ) as stream:
        for delta in stream:
            last = time.perf_counter()
            first = first or last
            tokens.extend(delta.token_ids)
    return tokens, (len(tokens) - 1) / (last - first)


def _same(llm: LLM, rival: Rival, ids: list[int], max_tokens: int) -> bool:
    """Whether both give the same tokens up to the end; also the warm-up."""
    theirs = rival.run(ids, max_tokens, fixed=False)[0]
    ours = llm.generate(prompt_token_ids=ids, max_tokens=max_tokens, temperature=0.0).token_ids
    return list(ours) == theirs


def _parameters(folder: Path) -> int:
    """Parameters that a decode step reads: all of them, tied embeddings once."""
    from safetensors import safe_open

    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():
                total += _size(file.get_slice(name).get_shape())
    return total


def _size(shape: list[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _floors(dtypes: list[str]) -> str:
    return "/".join(f"{FLOORS[dtype]:g}x" for dtype in dtypes)


def _row(dtype: str, result: dict[str, Any]) -> list[str]:
    return [
        dtype,
        f"{result['base_median']:.1f}",
        f"{result['ours_median']:.1f}",
        f"{result['ratio']:.2f}x",
        f"{result['ratio_low']:.2f}-{result['ratio_high']:.2f}",
        f"{result['limit']:.0f}",
        f"{result['share_of_limit']:.0%}",
        f"{result['same_tokens']}/{result['prompts']}",
        str(result["verdict"]),
    ]
