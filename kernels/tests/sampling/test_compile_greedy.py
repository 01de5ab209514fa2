"""The likeliest tokens and the walk, compiled ahead of time for devices that are not there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.tests.ahead_of_time import CAPABILITIES, REGISTERS, compiled, in_own_process

VOCABULARY = 151_936
_CANDIDATES = 64
EXPECTED = {
    "_chunk_argmax_kernel",
    "_row_argmax_kernel",
    "_chunk_top_k_kernel",
    "_row_top_k_kernel",
    "_token_logits_kernel",
    "_verify_greedy_kernel",
    "_draft_roots_kernel",
    "_draft_beams_kernel",
    "_root_work_kernel",
}


def test_every_kernel_compiles_without_spills(tmp_path: Path) -> None:
    lines = in_own_process(__file__, cache=tmp_path)
    assert {form["name"] for form in lines} == EXPECTED
    # Those of the likeliest tokens, and of what is drafted behind them, in two widths.
    assert len(lines) == (len(EXPECTED) + 3) * len(CAPABILITIES)
    for form in lines:
        assert (form["stack_bytes"], form["spills"]) == (0, 0), form
        assert 2 * form["registers"] * form["threads"] <= REGISTERS, form
        assert form["loads_16"] or "_chunk_" not in form["name"], form


def main() -> None:
    """Compiles and prints the kernels."""
    from spectrie_kernels import TOP_K, KeyOrder, RootPlaces, RootSections
    from spectrie_kernels.calls.greedy import CHUNK_TOKENS
    from spectrie_kernels.device.sampling import (
        draft_beams,
        draft_roots,
        row_argmax,
        token_logits,
        top_k,
        verify_greedy,
    )

    walk = ("argmax", "row_token", "row_parent", "counts", "path_rows", "emitted", "output")
    types = dict.fromkeys((*walk, "request_row_start", "request_row_count", "ids", "rows"), "*i32")
    types |= dict.fromkeys(("logits", "totals", "probabilities"), "*fp32") | {"keys": "*i64"}
    types |= {"x": "*bf16", "weight": "*bf16", "tokens": "*i32"}
    roots = (
        "packed",
        "walks",
        "count",
        "drawn",
        "positions",
        "slots",
        "origins",
        "places",
        "pages",
    )
    types |= dict.fromkeys((*roots, "found", "part_items", "combined"), "*i32")
    beams = ("root_positions", "root_places", "root_pages", "names", "number")
    types |= dict.fromkeys(beams, "*i32") | {"weights": "*fp32"}
    row = {"VOCABULARY": VOCABULARY, "CHUNK": CHUNK_TOKENS}
    chunks = -(-VOCABULARY // CHUNK_TOKENS)
    block = 1 << (chunks - 1).bit_length()
    of_row = {"CHUNKS": chunks, "BLOCK_CHUNKS": block, "HAS_ROWS": True}
    places = RootPlaces(1 << 14, 1 << 20, 512, 640, 1 << 17, VOCABULARY)
    walks, one_warp = draft_roots.compiled_form(RootSections(0, 26, 6), places)
    work, _ = draft_roots.work_form(KeyOrder.of(8, 4096), 1)
    likeliest = [
        draft_beams.compiled_form(width, 4, places, has_names=width == TOP_K)[0]
        for width in (TOP_K, _CANDIDATES)
    ]
    forms: list[tuple[Any, dict[str, int]]] = [
        (row_argmax._chunk_argmax_kernel, row),
        (row_argmax._row_argmax_kernel, {"CHUNKS": chunks, "BLOCK": block}),
        *(
            (top_k._chunk_top_k_kernel, row | {"WIDTH": width, "HAS_ROWS": True})
            for width in (TOP_K, _CANDIDATES)
        ),
        *((top_k._row_top_k_kernel, of_row | {"WIDTH": width}) for width in (TOP_K, _CANDIDATES)),
        (token_logits._token_logits_kernel, {"FEATURES": 4096, "BLOCK": token_logits.BLOCK}),
        (verify_greedy._verify_greedy_kernel, {"MAX_ROWS": verify_greedy.MAX_ROWS}),
        (draft_roots._draft_roots_kernel, walks),
        *((draft_beams._draft_beams_kernel, one) for one in likeliest),
        (draft_roots._root_work_kernel, work),
    ]
    options = row_argmax.COMPILED | top_k.COMPILED
    options["_token_logits_kernel"] = token_logits.COMPILED
    behind = ("_draft_roots_kernel", "_draft_beams_kernel", "_root_work_kernel")
    options |= dict.fromkeys(behind, one_warp)
    for capability in CAPABILITIES:
        for kernel, constants in forms:
            name = kernel.__name__
            code = compiled(kernel, types, constants, capability, **options.get(name, {}))
            line = {"name": name, "capability": capability} | asdict(code)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
