"""Products compiled ahead of time: one matrix instruction for all forms of one, and no spills.

Equal orders of addition are equal bits only if every form lets the same instruction add; and a
compiler may not merge the sum of segments into a product.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
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
from spectrie_kernels import LinearTiles, SumOrder

FAMILIES = {80: ["mma-k16"], 90: ["wgmma-k16"], 100: ["tcgen05-f16"]}
# Name -> out, in, row parallel, float32 output. An 8B model's; SmolLM2's segment of 72 is padded.
COVERING = {
    "8B qkv": (6144, 4096, False, False),
    "8B down": (4096, 14336, True, False),
    "8B head": (128256, 4096, False, True),
    "135M output": (576, 576, True, False),
}
DEEP = COVERING | {
    "8B output": (4096, 4096, True, False),
    "8B gate and up": (28672, 4096, False, False),
    "7B qkv": (4608, 3584, False, False),
    "7B down": (3584, 18944, True, False),
    "1.5B qkv": (2048, 1536, False, False),
    "1.5B output": (1536, 1536, True, False),
    "1.5B down": (1536, 8960, True, False),
    "0.5B qkv": (1152, 896, False, False),
    "0.5B gate and up": (9728, 896, False, False),
    "0.5B output": (896, 896, True, False),
    "0.5B down": (896, 4864, True, False),
    "0.5B head": (151936, 896, False, True),
    "135M qkv": (960, 576, False, False),
    "135M gate and up": (3072, 576, False, False),
    "135M down": (576, 1536, True, False),
}
ONE_STEP = "one step a segment"
Forms = list[dict[str, Any]]


@pytest.fixture(scope="module")
def covering(tmp_path_factory: pytest.TempPathFactory) -> Forms:
    return in_own_process(__file__, "covering", cache=tmp_path_factory.mktemp("triton"))


def test_forms_of_one_product_use_one_instruction_and_its_step(covering: Forms) -> None:
    one_instruction(covering, QUICK_CAPABILITIES)


def test_no_form_spills_and_decode_leaves_room_for_two_programs(covering: Forms) -> None:
    room(covering)


def test_segment_sums_are_added_apart_from_products(covering: Forms) -> None:
    added_apart(covering)


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_every_known_weight_and_dtype_compiles_alike(tmp_path: Path) -> None:
    forms = in_own_process(__file__, "deep", cache=tmp_path)
    one_instruction(forms, CAPABILITIES)
    room(forms)
    added_apart(forms)


def one_instruction(forms: Forms, capabilities: tuple[int, ...]) -> None:
    seen = {form["capability"] for form in products(forms)}
    assert seen == set(capabilities)
    for form in products(forms):
        half = form["dtype"] != "fp32"
        assert form["matrix"] == (FAMILIES[form["capability"]] if half else []), form
        assert form["copies_16"], form


def room(forms: Forms) -> None:
    for form in forms:
        assert (form["stack_bytes"], form["spills"]) == (0, 0), form
        programs = 1 if form["rows"] > 64 else 2
        shared = SHARED_BYTES[form["capability"]]
        assert programs * form["registers"] * form["threads"] <= REGISTERS, form
        assert programs * (form["shared_bytes"] + 1024) <= shared, form


def added_apart(forms: Forms) -> None:
    """A whole product adds each segment to a pair, pairs to a half, halves and the bias to the total.

    Where the compiler merges the first of these into the matrix product, three are left.
    """
    whole = [form for form in products(forms) if not form["split"]]
    assert whole
    assert all(form["added_apart"] >= 4 for form in whole)


def products(forms: Forms) -> Iterator[dict[str, Any]]:
    return (form for form in forms if form["name"] != "add")


def main(deep: bool) -> None:
    """Compiles and prints the forms."""
    from spectrie_kernels.device import linear

    weights = DEEP if deep else COVERING
    all_rows = (1, 32, 64, 128) if deep else (1, 128)
    for capability in CAPABILITIES if deep else QUICK_CAPABILITIES:
        for name, weight in weights.items():
            dtypes = ("bf16", "fp32", "fp16")
            for dtype in dtypes if deep else dtypes[: 1 + (name == "135M output")]:
                for rows in all_rows:
                    order = SumOrder.of(weight[0], weight[1], row_parallel=weight[2])
                    tiles = LinearTiles.of(rows, order, 4 if dtype == "fp32" else 2)
                    out = "fp32" if weight[3] else dtype
                    report(linear, name, weight[0], order, tiles, dtype, out, capability, rows)
        add(linear, capability)
        # A single step in each segment.
        order, tiles = SumOrder(256, 64), LinearTiles(False, 64, 16, 64)
        report(linear, ONE_STEP, 64, order, tiles, "bf16", "bf16", capability, 1)


def report(
    module: Any,
    name: str,
    out_features: int,
    order: SumOrder,
    tiles: LinearTiles,
    dtype: str,
    out: str,
    capability: int,
    rows: int,
) -> None:
    outer, middle, inner = order.nest
    types = dict.fromkeys(("x", "weight", "bias"), f"*{dtype}") | dict.fromkeys(
        ("num_rows", "padded"), "i32"
    )
    types["output"] = "*fp32" if tiles.split else f"*{out}"
    constants = {
        "OUT_FEATURES": out_features,
        "IN_FEATURES": order.in_features,
        "SEGMENT": order.segment,
        "EVEN": order.is_even,
        "OUTER": outer,
        "MIDDLE": middle,
        "INNER": inner,
        "SPLIT": tiles.split,
        "HAS_BIAS": True,
        "BLOCK_FEATURES": tiles.features,
        "BLOCK_ROWS": tiles.rows,
        "BLOCK_DEPTH": tiles.depth,
    }
    code = compiled(
        module._linear_kernel,
        types,
        constants,
        capability,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    facts = {"name": name, "dtype": dtype, "split": tiles.split}
    show(facts | {"rows": rows, "capability": capability} | asdict(code))


def add(module: Any, capability: int) -> None:
    """The kernel that adds the eight segment sums."""
    types = {"partials": "*fp32", "bias": "*bf16", "output": "*bf16", "num_rows": "i32"}
    nest = {"OUTER": 2, "MIDDLE": 2, "INNER": 2}
    constants = nest | {"OUT_FEATURES": 4096, "HAS_BIAS": True, "BLOCK": module._ADD_FEATURES}
    code = compiled(module._add_kernel, types, constants, capability)
    show({"name": "add", "rows": 1, "capability": capability} | asdict(code))


def show(facts: dict[str, Any]) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] == "deep")
