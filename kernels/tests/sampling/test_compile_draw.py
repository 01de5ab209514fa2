"""The kernels of `draw` compiled ahead of time: nothing fused, nothing spilled, constants unrounded."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.tests.ahead_of_time import QUICK_OR_ALL, REGISTERS, compiled, in_own_process

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "tests" / "golden" / "noise.json").read_text()
)
KERNELS = {
    "_copy_kernel",
    "_adjust_kernel",
    "_scale_kernel",
    "_noise_kernel",
    "_pick_kernel",
    "_moments_kernel",
    "_narrow_kernel top_k",
    "_narrow_kernel top_p",
    "_narrow_kernel typical_p",
    "_drop_kernel top_k",
    "_drop_kernel top_p",
    "_drop_kernel typical_p",
}


@pytest.mark.parametrize("capabilities", QUICK_OR_ALL)
def test_kernels_fuse_and_spill_nothing(capabilities: tuple[int, ...], tmp_path: Path) -> None:
    lines = in_own_process(__file__, *map(str, capabilities), cache=tmp_path)
    assert {(form["kernel"], form["capability"]) for form in lines} == {
        (kernel, capability) for kernel in KERNELS for capability in capabilities
    }
    exact = {f"{np.float64(one).view(np.uint64):016X}" for one in GOLDEN["r"]}
    for form in lines:
        assert (form["stack_bytes"], form["spills"]) == (0, 0), form
        assert (form["fused"], form["fused_64"], form["flushed"]) == (0, 0, 0), form
        assert form["registers"] * form["threads"] * 2 <= REGISTERS, form
        assert form["shared_bytes"] <= 48 << 10, form
        # Of float32 precision they would be other numbers.
        if form["kernel"] == "_noise_kernel":
            assert exact <= set(form["doubles"]), form


def main(capabilities: list[int]) -> None:
    """Compiles and prints the forms; launch options as `draw` gives them."""
    from spectrie_kernels.device.sampling import draw, draw_cuts

    floats = ("logits", "scores", "temperature", "min_p", "bias_value", "repetition", "frequency")
    types: dict[str, str] = dict.fromkeys((*floats, "presence"), "*fp32")
    types |= dict.fromkeys(("raw", "best", "noisy", "seed", "moments", "sums", "state"), "*i64")
    int32 = ("allowed", "allowed_row", "request", "position", "out")
    types |= dict.fromkeys(int32, "*i32")
    for name in ("bias", "seen", "path", "masked"):
        types |= {f"{name}_start": "*i32", f"{name}_token": "*i32"}
    types |= {"seen_count": "*i32"}
    types |= dict.fromkeys(("vocabulary", "words", "span", "chunks", "digit"), "i32")
    for module in (draw, draw_cuts):
        for name, form in module.COMPILED.items():
            kernel: Any = getattr(module, name)
            options = {key: form[key] for key in ("num_warps", "enable_fp_fusion")}
            constants = {key: value for key, value in form.items() if key not in options}
            if "CHUNKS" in kernel.arg_names:
                constants["CHUNKS"] = 64
            cuts = draw_cuts.CUTS if "CUT" in kernel.arg_names else {"": None}
            for cut, which in cuts.items():
                own = constants | ({} if which is None else {"CUT": which})
                wanted = {"wanted": "*i32" if which == 0 else "*fp32"}
                for capability in capabilities:
                    code = compiled(kernel, types | wanted, own, capability, **options)
                    label = {"kernel": f"{name} {cut}".strip(), "capability": capability}
                    print(json.dumps(label | asdict(code)), flush=True)


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]])
