"""What stands between products, compiled ahead of time: no spills, no fused sums, wide copies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kernels.tests.ahead_of_time import (
    QUICK_OR_ALL,
    REGISTERS,
    SHARED_BYTES,
    compiled,
    in_own_process,
)

# Of models of 135M, 8B and 70B.
FEATURES = (576, 4096, 8192)
# Heads, key-value heads, their size, and half of the rotated dimensions.
HEADS = ((9, 3, 64, 32), (32, 8, 128, 64), (8, 4, 256, 128), (32, 32, 80, 16))
# Forms of a product, with the number of parts that are added ascending.
SUMS = {"finished": 0, "pairwise": 0, "ascending": 16}

Form = tuple[str, Any, dict[str, str], dict[str, Any], dict[str, Any]]


@pytest.mark.parametrize("capabilities", QUICK_OR_ALL)
def test_every_form_fits_a_multiprocessor_without_spills_or_fused_sums(
    capabilities: tuple[int, ...], tmp_path: Path
) -> None:
    lines = in_own_process(__file__, *map(str, capabilities), cache=tmp_path)
    # Numbers that Triton would compile another kernel for, if they were 1 or a multiple of 16.
    assert lines.pop(0) == {
        "add_norm": ["parts", "num_rows"],
        "gate": ["parts", "num_rows"],
        "rotate_write": ["parts", "num_rows"],
        "move_slots": ["num_slots"],
        "compact_slots": ["num_slots"],
        "gather_rows": [],
        "lift_rows": ["count"],
        "unpack": [],
        "take_drawn": [],
    }
    assert {form["name"] for form in lines} == {name for name, *_ in _names()}
    assert len(lines) == len(_names()) * len(capabilities)
    for form in lines:
        assert (form["stack_bytes"], form["spills"], form["fused"]) == (0, 0, 0), form
        # Two programs at least; a norm's program has a row of any length.
        programs = 1 if form["name"].startswith("add_norm") else 2
        assert programs * form["registers"] * form["threads"] <= REGISTERS, form
        room = SHARED_BYTES[form["capability"]]
        assert programs * (form["shared_bytes"] + 1024) <= room, form
        # A few tokens, from anywhere.
        if not form["name"].startswith(("add_norm", "take_drawn")):
            assert form["loads_16"], form
            assert form["stores_16"], form


def _names() -> list[tuple[str, ...]]:
    names = [(f"add_norm {features}",) for features in FEATURES]
    for sums in SUMS:
        names += [(f"rotate_write {heads} {sums}",) for heads in HEADS]
        names += [(f"gate {sums}",)]
    others = (
        "move_slots",
        "compact_slots",
        "gather_rows",
        "embed",
        "lift_rows",
        "unpack",
        "take_drawn",
    )
    return [*names, *((name,) for name in others)]


def _forms() -> Iterator[Form]:
    """Launch options as the launchers give them."""
    from spectrie_kernels.device import (
        add_norm,
        gate,
        gather_rows,
        move_slots,
        rotate_write,
        take_drawn,
        unpack,
    )

    for features in FEATURES:
        types = dict.fromkeys(("residual", "sums", "weight"), "*fp32")
        types |= {"epsilon": "fp32", "bias": "*bf16", "output": "*bf16"}
        types |= {"parts": "i32", "num_rows": "i32"}
        form = add_norm.compiled_form(features, has_bias=True)
        yield f"add_norm {features}", add_norm._add_norm_kernel, types, *form
    for sums, ascending in SUMS.items():
        product = {"SUMS": sums != "finished", "ASCENDING": ascending, "HAS_BIAS": True}
        numbers = {"parts": "i32", "num_rows": "i32", "epsilon": "fp32"}
        halves = dict.fromkeys(("bias", "keys", "values", "query", "output"), "*bf16")
        types = numbers | halves | dict.fromkeys(("positions", "slots"), "*i32")
        types |= dict.fromkeys(("qkv", "gate_up"), "*bf16" if sums == "finished" else "*fp32")
        types |= dict.fromkeys(("cosines", "sines", "query_norm", "key_norm"), "*fp32")
        for heads in HEADS:
            constants, options = rotate_write.compiled_form(*heads[:3])
            constants = constants | product | {"HALF": heads[3], "HAS_NORMS": True}
            kernel = rotate_write._rotate_write_kernel
            yield f"rotate_write {heads} {sums}", kernel, types, constants, options
        constants, options = gate.compiled_form(14_336)
        yield f"gate {sums}", gate._gate_kernel, types, constants | product, options
    types = dict.fromkeys(("keys", "values"), "*bf16") | dict.fromkeys(("moves", "count"), "*i32")
    types |= {"num_slots": "i32"}
    yield "move_slots", move_slots._move_slots_kernel, types, *move_slots.compiled_form(1024)
    of_trees = ("drawn", "tokens", "parents", "slots", "walks", "count")
    types |= dict.fromkeys(of_trees, "*i32")
    kernel = move_slots._compact_slots_kernel
    yield "compact_slots", kernel, types, *move_slots.compaction_form(1024)
    for name, output in (("gather_rows", "*bf16"), ("embed", "*fp32")):
        types = {"x": "*bf16", "rows": "*i32", "output": output}
        yield name, gather_rows._gather_rows_kernel, types, *gather_rows.compiled_form(4096)
    types = {"x": "*fp32", "rows": "*i32", "count": "i32"}
    yield "lift_rows", gather_rows._lift_rows_kernel, types, *gather_rows.lifting_form(152_064)
    types = dict.fromkeys(("packed", "table", "words", "counts"), "*i32")
    yield "unpack", unpack._unpack_kernel, types, *unpack.compiled_form()
    types = dict.fromkeys(("packed", "drawn"), "*i32")
    yield "take_drawn", take_drawn._take_drawn_kernel, types, *take_drawn.compiled_form(0)


def main(capabilities: list[int]) -> None:
    """Compiles and prints the forms, after what of each kernel stays general."""
    forms = list(_forms())
    general = {}
    for name, kernel, *_ in forms:
        if name.split()[0] != "embed":
            kept = [one.name for one in kernel.params if one.do_not_specialize]
            general[name.split()[0]] = kept
    print(json.dumps(general))
    for capability in capabilities:
        for name, kernel, types, constants, options in forms:
            code = compiled(kernel, types, constants, capability, **options)
            line = {"name": name, "capability": capability} | asdict(code)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]])
