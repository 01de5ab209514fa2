"""The norm compiled ahead of time: one kernel for every number of rows and parts, nothing fused."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from kernels.tests.ahead_of_time import (
    CAPABILITIES,
    REGISTERS,
    SHARED_BYTES,
    compiled,
    in_own_process,
)

# Of models of 135M, 8B and 70B.
FEATURES = (576, 4096, 8192)


def test_the_norm_fits_a_multiprocessor_without_spills_or_fused_sums(tmp_path: Path) -> None:
    lines = in_own_process(__file__, cache=tmp_path)
    # Numbers that Triton would compile another kernel for, if they were 1 or a multiple of 16.
    assert lines.pop(0)["kept_general"] == ["parts", "num_rows"]
    assert len(lines) == len(FEATURES) * len(CAPABILITIES)
    for form in lines:
        assert (form["stack_bytes"], form["spills"], form["fused"]) == (0, 0, 0), form
        assert form["registers"] * form["threads"] <= REGISTERS, form
        assert form["shared_bytes"] + 1024 <= SHARED_BYTES[form["capability"]], form


def main() -> None:
    """Compiles and prints the forms; launch options as `add_norm` gives them."""
    from spectrie_kernels.device import add_norm

    kernel = add_norm._add_norm_kernel
    kept = [one.name for one in kernel.params if one.do_not_specialize]
    print(json.dumps({"kept_general": kept}))
    types = dict.fromkeys(("residual", "sums", "weight"), "*fp32")
    types |= {"epsilon": "fp32", "bias": "*bf16", "output": "*bf16"}
    types |= {"parts": "i32", "num_rows": "i32"}
    for capability in CAPABILITIES:
        for features in FEATURES:
            constants, options = add_norm.compiled_form(features, has_bias=True)
            code = compiled(kernel, types, constants, capability, **options)
            print(json.dumps({"capability": capability} | asdict(code)), flush=True)


if __name__ == "__main__":
    main()
