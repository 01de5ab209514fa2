"""Attention compiled ahead of time: one matrix instruction for all forms, and no spills."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kernels.tests.ahead_of_time import (
    CAPABILITIES,
    QUICK_CAPABILITIES,
    REGISTERS,
    SHARED_BYTES,
    compiled,
    in_own_process,
)
from spectrie_kernels import AttentionTiles, KeyOrder

FAMILIES = {80: ["mma-k16"], 90: ["wgmma-k16"], 100: ["tcgen05-f16"]}
# Group, key-value heads, size of a head, window: of 8B, SmolLM2-135M and a model with wide heads.
COVERING = [(4, 8, 128, 0), (3, 3, 64, 4096), (8, 1, 256, 0)]
DEEP = [
    *COVERING,
    (7, 4, 128, 0),
    (7, 2, 64, 0),
    (6, 2, 128, 0),
    (1, 32, 80, 2048),
    (16, 1, 128, 0),
    (2, 4, 256, 1024),
]
Forms = list[dict[str, Any]]


@pytest.fixture(scope="module")
def covering(tmp_path_factory: pytest.TempPathFactory) -> Forms:
    return in_own_process(__file__, "covering", cache=tmp_path_factory.mktemp("triton"))


def test_all_forms_use_one_instruction_and_its_step(covering: Forms) -> None:
    one_instruction(covering, QUICK_CAPABILITIES)


def test_no_form_spills(covering: Forms) -> None:
    room(covering)


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_every_known_shape_and_dtype_compiles_alike(tmp_path: Path) -> None:
    forms = in_own_process(__file__, "deep", cache=tmp_path)
    one_instruction(forms, CAPABILITIES)
    room(forms)


def one_instruction(forms: Forms, capabilities: tuple[int, ...]) -> None:
    assert {form["capability"] for form in forms} == set(capabilities)
    for form in forms:
        if form["name"] == "combine":
            continue
        half = form["dtype"] != "fp32"
        assert form["matrix"] == (FAMILIES[form["capability"]] if half else []), form
        assert form["copies_16"] or not half, form


def room(forms: Forms) -> None:
    for form in forms:
        assert (form["stack_bytes"], form["spills"]) == (0, 0), form
        programs = form["programs"]
        shared = SHARED_BYTES[form["capability"]]
        assert programs * form["registers"] * form["threads"] <= REGISTERS, form
        assert programs * (form["shared_bytes"] + 1024) <= shared, form


def main(deep: bool) -> None:
    """Compiles and prints the forms."""
    for capability in CAPABILITIES if deep else QUICK_CAPABILITIES:
        for shape in DEEP if deep else COVERING:
            first = shape == COVERING[0]
            report("combine", capability, shape, 16, "bf16")
            for dtype in ("bf16", "fp16", "fp32") if deep else ("bf16", "fp32")[: 1 + first]:
                tiles = AttentionTiles.of(shape[2], 4 if dtype == "fp32" else 2)
                for rows in {16, 32 if deep else 16, tiles.part_rows}:
                    if rows <= tiles.part_rows:
                        report("part", capability, shape, rows, dtype)
                report("prompt", capability, shape, tiles.prompt_rows, dtype)


def report(
    name: str, capability: int, shape: tuple[int, int, int, int], rows: int, dtype: str
) -> None:
    from spectrie_kernels.device import attention_parts, attention_prompt
    from spectrie_kernels.device.tree_attention import combine_form, form

    group, kv_heads, head_dim, window = shape
    tensors = ("query", "key_cache", "value_cache", "output")
    types = dict.fromkeys(tensors, f"*{dtype}") | {"scale_log2": "fp32"}
    types |= dict.fromkeys(("partial", "partial_max", "partial_sum"), "*fp32")
    integers = ("items", "counts", "row_position", "path_slots", "page_ids", "combined")
    types |= dict.fromkeys(integers, "*i32")
    constants: dict[str, Any]
    if name == "combine":
        kernel = attention_parts.combine_kernel
        constants, options = combine_form(head_dim, KeyOrder.of(kv_heads).max_parts - 1)
        constants |= {"HEADS": group * kv_heads, "HEAD_DIM": head_dim}
    else:
        constants, options = form(head_dim, rows, dtype != "fp32")
        constants |= {"GROUP": group, "KV_HEADS": kv_heads, "HEAD_DIM": head_dim}
        constants |= {"PAGE_SIZE": 16, "WINDOW": window, "FIRST_KEY": 0}
        kernel = attention_prompt.prompt_kernel
        if name == "part":
            constants["TAIL_ROWS"] = 16
            kernel = attention_parts.part_kernel
    code = compiled(kernel, types, constants, capability, **options)
    # Decode leaves room for another program on a multiprocessor while one waits for its keys.
    programs = 2 if name == "part" and rows == 16 and head_dim <= 128 else 1
    facts = {"name": name, "dtype": dtype, "shape": shape, "rows": rows, "programs": programs}
    print(json.dumps(facts | {"capability": capability} | asdict(code)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] == "deep")
