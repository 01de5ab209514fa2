"""The real model: equal to transformers, and equal to itself bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spectrie.model import load_runner, machine, resolve
from spectrie.model.linear import BLOCK_ROWS, HEAD_ROWS, choose_packing, pack, rows_are_independent
from spectrie.model.plan import StepPlan
from spectrie.model.weights import Weights
from tests.model.stepping import in_pieces

pytestmark = pytest.mark.model

TEXT = Path(__file__).parent.joinpath("test_decoder.py")
NATIVE_BF16 = bool(machine.cpu_flags() & {"avx512_bf16", "amx_bf16"})
DTYPES = ["float32", *(["bfloat16"] if NATIVE_BF16 else [])]


@pytest.fixture(scope="module")
def folder() -> Path:
    return resolve("smollm2-135m").folder


@pytest.fixture(scope="module")
def ids(folder: Path) -> list[int]:
    from transformers import AutoTokenizer

    encoded = AutoTokenizer.from_pretrained(folder)(TEXT.read_text())["input_ids"]
    return [int(token) for token in encoded[:300]]


def test_logits_equal_transformers(folder: Path, ids: list[int]) -> None:
    from transformers import AutoModelForCausalLM

    runner = load_runner(folder, dtype="float32", num_pages=64)
    ours = in_pieces(runner, ids, [len(ids)], list(range(20)))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        theirs = model(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=5e-4)
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_logit_bytes_do_not_depend_on_company(folder: Path, ids: list[int], dtype: str) -> None:
    runner = load_runner(folder, dtype=dtype, num_pages=128)
    assert runner.exact
    whole = in_pieces(runner, ids, [len(ids)], list(range(20)))
    assert torch.equal(whole, in_pieces(runner, ids, [7, 1, 120, 2, 170], list(range(40, 20, -1))))
    for threads in (1, 2):
        runner.set_threads(threads)
        # One row, and one row among others, at every size of company up to a chunk.
        pages = list(range(60, 80))
        in_pieces(runner, ids[:120], [120], pages)
        for rows in (1, 2, 3, 5, 8, 16, 17, 33, 64, 129) if threads == 1 else (1, 9, 130):
            plan = StepPlan.single(ids[120 : 120 + rows], kv_len=120, pages=pages)
            assert torch.equal(runner.forward(plan), whole[120 : 120 + rows]), rows
        # A tree whose likely path is spread among wrong nodes.
        path = ids[120:126]
        nodes, parents = [path[0]], [-1]
        for depth, token in enumerate(path[1:]):
            above = nodes.index(path[depth], max(0, 3 * depth - 2))
            nodes += [11, 12, token]
            parents += [above, above, above]
        plan = StepPlan.single(nodes, kv_len=120, pages=pages, parents=parents)
        logits = runner.forward(plan)
        for depth in range(6):
            assert torch.equal(logits[3 * depth], whole[120 + depth]), depth


@pytest.mark.parametrize("dtype", [getattr(torch, name) for name in DTYPES])
def test_rows_of_every_linear_shape_are_independent(folder: Path, dtype: torch.dtype) -> None:
    weights = Weights(folder)
    layer = "model.layers.0."
    hidden, inner = 576, 1536
    qkv = [
        weights.take(f"{layer}self_attn.{name}_proj.weight", (size, hidden))
        for name, size in (("q", 576), ("k", 192), ("v", 192))
    ]
    gate_up = [
        weights.take(f"{layer}mlp.{name}_proj.weight", (inner, hidden)) for name in ("gate", "up")
    ]
    shapes = {
        "qkv": torch.cat(qkv),
        "output": weights.take(f"{layer}self_attn.o_proj.weight", (hidden, hidden)),
        "gate_up": torch.cat(gate_up),
        "down": weights.take(f"{layer}mlp.down_proj.weight", (hidden, inner)),
        "head": weights.take("model.embed_tokens.weight", (49152, hidden)),
    }
    torch.manual_seed(1)
    for name, weight in shapes.items():
        weight = weight.to(dtype)
        rows = HEAD_ROWS if name == "head" else BLOCK_ROWS
        packing = choose_packing(weight, None, rows)
        assert packing.exact, name
        # With other numbers than those it was chosen by.
        x = torch.randn(rows, weight.shape[1]).to(dtype)
        assert rows_are_independent(pack(weight, None, packing), x), name
