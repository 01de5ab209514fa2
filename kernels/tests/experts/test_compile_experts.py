"""Kernels of mixtures compiled ahead of time: one matrix instruction for all tiles, no spills, no fused
sums."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from kernels.tests.ahead_of_time import (
    QUICK_OR_ALL,
    REGISTERS,
    SHARED_BYTES,
    compiled,
    in_own_process,
)
from kernels.tests.test_compile_linear import FAMILIES
from spectrie_kernels import ExpertWeight, LinearTiles, SumOrder

# Out, in, experts of a row: of Qwen3-30B-A3B, and of Mixtral 8x7B.
PRODUCTS = {
    "30B gate and up": (1536, 2048, 8),
    "30B down": (2048, 768, 8),
    "8x7B down": (4096, 14336, 2),
}
HEIGHTS = {"bf16": (16, 64, 128), "fp32": (16, 32)}
ROUTER_ROWS = (1, 64, 65)

Forms = list[dict[str, Any]]


@pytest.fixture(scope="module", params=QUICK_OR_ALL)
def capabilities(request: pytest.FixtureRequest) -> tuple[int, ...]:
    found: tuple[int, ...] = request.param
    return found


@pytest.fixture(scope="module")
def forms(capabilities: tuple[int, ...], tmp_path_factory: pytest.TempPathFactory) -> Forms:
    cache = tmp_path_factory.mktemp("triton")
    return in_own_process(__file__, *map(str, capabilities), cache=cache)


def test_no_form_spills_and_low_tiles_leave_room_for_two_programs(
    forms: Forms, capabilities: tuple[int, ...]
) -> None:
    assert {form["capability"] for form in forms} == set(capabilities)
    for form in forms:
        assert (form["stack_bytes"], form["spills"]) == (0, 0), form
        programs = 1 if form["rows"] > 64 else 2
        assert programs * form["registers"] * form["threads"] <= REGISTERS, form
        room = SHARED_BYTES[form["capability"]]
        assert programs * (form["shared_bytes"] + 1024) <= room, form


def test_products_of_experts_use_the_instruction_of_other_products(forms: Forms) -> None:
    for form in (one for one in forms if one["name"] in PRODUCTS):
        half = form["dtype"] == "bf16"
        assert form["matrix"] == (FAMILIES[form["capability"]] if half else []), form
        assert form["copies_16"], form
        # The sum of segments is no part of a product.
        assert form["added_apart"] >= 1, form


def test_scores_are_float32_products_of_rows_in_half_precision(
    forms: Forms, capabilities: tuple[int, ...]
) -> None:
    routers = [form for form in forms if form["name"] == "router"]
    assert len(routers) == len(ROUTER_ROWS) * len(capabilities)
    for form in routers:
        assert form["matrix"] == [], form
        assert form["copies_16"], form


def test_shares_and_sums_of_experts_are_rounded_apart(forms: Forms) -> None:
    seen = [form for form in forms if form["name"] in ("choose", "add")]
    assert seen
    assert all(form["fused"] == 0 for form in seen)
    assert all(form["loads_16"] and form["stores_16"] for form in seen if form["name"] == "add")


def main(capabilities: list[int]) -> None:
    """Compiles and prints the forms."""
    for capability in capabilities:
        for form in [*_products(), *_routers(), *_small()]:
            name, facts, kernel, types, constants, options = form
            code = compiled(kernel, types, constants, capability, **options)
            line = {"name": name, "rows": 1, "capability": capability} | facts | asdict(code)
            print(json.dumps(line), flush=True)


def _products() -> Iterator[tuple[Any, ...]]:
    from spectrie_kernels.device.experts.products import _expert_linear_kernel

    for name, (out_features, in_features, chosen) in PRODUCTS.items():
        order = ExpertWeight.order_of(out_features, in_features, chosen)
        for dtype in HEIGHTS if name == "30B gate and up" else ("bf16",):
            for height in HEIGHTS[dtype]:
                tiles = LinearTiles.of_height(height, order, 4 if dtype == "fp32" else 2)
                types = dict.fromkeys(("x", "weight", "output"), f"*{dtype}")
                types |= dict.fromkeys(("choices", "tiles", "count"), "*i32") | {"padded": "i32"}
                constants = _constants(out_features, order, tiles) | {
                    "SEGMENTS": order.segments,
                    "PER_ROW": chosen,
                }
                facts = {"dtype": dtype, "rows": height}
                options = {"num_warps": tiles.warps, "num_stages": tiles.stages}
                yield name, facts, _expert_linear_kernel, types, constants, options


def _routers() -> Iterator[tuple[Any, ...]]:
    from spectrie_kernels.device.linear import _linear_kernel

    order = SumOrder.of(128, 2048)
    for rows in ROUTER_ROWS:
        tiles = LinearTiles.of(rows, order, 4)
        types = dict.fromkeys(("weight", "bias", "output"), "*fp32") | {"x": "*bf16"}
        types |= dict.fromkeys(("num_rows", "padded"), "i32")
        outer, middle, inner = order.nest
        constants = _constants(128, order, tiles) | {
            "OUTER": outer,
            "MIDDLE": middle,
            "INNER": inner,
            "SPLIT": tiles.split,
            "HAS_BIAS": False,
        }
        options = {"num_warps": tiles.warps, "num_stages": tiles.stages}
        yield "router", {"rows": tiles.rows}, _linear_kernel, types, constants, options


def _constants(out_features: int, order: SumOrder, tiles: LinearTiles) -> dict[str, Any]:
    return {
        "OUT_FEATURES": out_features,
        "IN_FEATURES": order.in_features,
        "SEGMENT": order.segment,
        "EVEN": order.is_even,
        "BLOCK_FEATURES": tiles.features,
        "BLOCK_ROWS": tiles.rows,
        "BLOCK_DEPTH": tiles.depth,
    }


def _small() -> Iterator[tuple[Any, ...]]:
    from spectrie_kernels.device.experts import choice, products

    types = dict.fromkeys(("scores", "bias", "shares"), "*fp32")
    types |= dict.fromkeys(("tokens", "ids"), "*i32") | {"parts": "i32", "num_rows": "i32"}
    for experts, chosen, ascending in ((128, 8, 8), (512, 10, 0), (8, 2, 16)):
        constants, options = choice.choosing_form(experts, chosen)
        form = {"SUMS": ascending > 0, "ASCENDING": ascending, "HAS_BIAS": False}
        form["NORMALISED"] = experts != 128
        yield "choose", {}, choice._choose_kernel, types, constants | form, options
    types = dict.fromkeys(("ids", "choices", "tiles", "count"), "*i32") | {"num_choices": "i32"}
    for experts, height in ((128, 16), (8, 128)):
        yield "group", {}, choice._group_kernel, types, *choice.grouping_form(experts, height)
    types = {"results": "*bf16", "ids": "*i32", "shares": "*fp32", "output": "*fp32"}
    yield "add", {}, products._add_experts_kernel, types, *products.adding_form(2048, 8)


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]])
